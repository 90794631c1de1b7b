//! Code generation for limits.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, Rate};

/// Generates an expression that builds this limit, in a context that returns `LimitError` with `?`. `expansion`
/// is the path of the runtime module.
pub(crate) fn limit_expr(limit: &Limit, expansion: &TokenStream) -> TokenStream {
    let rate = |rate: Rate| {
        let (count, period) = (rate.count(), duration_expr(rate.period(), expansion));
        quote!(#expansion::Rate::new(#count, #period)?)
    };
    let call = match limit {
        Limit::TokenBucket(limit) => {
            let (rate, burst) = (rate(limit.rate()), limit.burst());
            quote!(token_bucket(#rate, #burst))
        }
        Limit::Bandwidth(limit) => {
            let (rate, burst) = (rate(limit.rate()), limit.burst());
            quote!(bandwidth(#rate, #burst))
        }
        Limit::LeakyBucket(limit) => {
            let (rate, queue) = (rate(limit.rate()), limit.queue());
            quote!(leaky_bucket(#rate, #queue))
        }
        Limit::FixedWindow(limit) => {
            let (count, window) = (limit.limit(), duration_expr(limit.window(), expansion));
            let alignment = match limit.alignment() {
                Alignment::Epoch => quote!(Epoch),
                Alignment::FirstUse => quote!(FirstUse),
            };
            quote!(fixed_window(#count, #window, #expansion::Alignment::#alignment))
        }
        Limit::SlidingWindow(limit) => {
            let (count, window, cells) = (limit.limit(), duration_expr(limit.window(), expansion), limit.cells());
            quote!(sliding_window(#count, #window, #cells))
        }
        Limit::InterpolatedWindow(limit) => {
            let (count, window) = (limit.limit(), duration_expr(limit.window(), expansion));
            quote!(interpolated_window(#count, #window))
        }
        Limit::SlidingLog(limit) => {
            let (count, window) = (limit.limit(), duration_expr(limit.window(), expansion));
            quote!(sliding_log(#count, #window))
        }
        Limit::Concurrency(limit) => {
            let permits = limit.limit();
            quote!(concurrency(#permits))
        }
        Limit::WarmUp(limit) => {
            let (rate, over, factor) =
                (rate(limit.rate()), duration_expr(limit.warm_up(), expansion), limit.cold_factor());
            quote!(warm_up(#rate, #over, #factor))
        }
        _ => return quote!(::core::compile_error!("this limit is not supported in an attribute")),
    };
    quote!(#expansion::Limit::#call?)
}

/// Generates an expression for a duration.
pub(crate) fn duration_expr(duration: Duration, expansion: &TokenStream) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(#expansion::Duration::new(#seconds, #nanos))
}

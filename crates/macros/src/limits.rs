//! Limits written into the expansion.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, Rate};

/// An expression that makes this limit again, where `?` answers a `LimitError`. `expansion` is the path of
/// what expansions call.
pub(crate) fn made_again(limit: &Limit, expansion: &TokenStream) -> TokenStream {
    let rate = |rate: Rate| {
        let (count, period) = (rate.count(), duration(rate.period(), expansion));
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
            let (count, window) = (limit.limit(), duration(limit.window(), expansion));
            let alignment = match limit.alignment() {
                Alignment::Epoch => quote!(Epoch),
                Alignment::FirstUse => quote!(FirstUse),
            };
            quote!(fixed_window(#count, #window, #expansion::Alignment::#alignment))
        }
        Limit::SlidingWindow(limit) => {
            let (count, window, cells) = (limit.limit(), duration(limit.window(), expansion), limit.cells());
            quote!(sliding_window(#count, #window, #cells))
        }
        Limit::InterpolatedWindow(limit) => {
            let (count, window) = (limit.limit(), duration(limit.window(), expansion));
            quote!(interpolated_window(#count, #window))
        }
        Limit::SlidingLog(limit) => {
            let (count, window) = (limit.limit(), duration(limit.window(), expansion));
            quote!(sliding_log(#count, #window))
        }
        Limit::Concurrency(limit) => {
            let permits = limit.limit();
            quote!(concurrency(#permits))
        }
        Limit::WarmUp(limit) => {
            let (rate, over, factor) = (rate(limit.rate()), duration(limit.warm_up(), expansion), limit.cold_factor());
            quote!(warm_up(#rate, #over, #factor))
        }
        _ => return quote!(::core::compile_error!("this limit has no form in an attribute yet")),
    };
    quote!(#expansion::Limit::#call?)
}

/// An expression for a duration.
pub(crate) fn duration(duration: Duration, expansion: &TokenStream) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(#expansion::Duration::new(#seconds, #nanos))
}

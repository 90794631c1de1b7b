//! Code generation for limits.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{MAX_PARAMETERS, ParameterValue};

/// Generates an expression that builds this limit, in a context that returns `LimitError` with `?`. `expansion`
/// is the path of the runtime module.
pub(crate) fn limit_expr(limit: &Limit, expansion: &TokenStream) -> TokenStream {
    let (algorithm, arguments) = (limit.algorithm(), limit.arguments());
    let values = (0..MAX_PARAMETERS).map(|index| match arguments.get(index) {
        Some(value) => {
            let value = value_expr(value, expansion);
            quote!(#expansion::Option::Some(#expansion::ParameterValue::#value))
        }
        None => quote!(#expansion::Option::None),
    });
    quote!(#expansion::Limit::from_arguments(#algorithm, &#expansion::LimitArguments::new([#(#values),*]))?)
}

fn value_expr(value: ParameterValue, expansion: &TokenStream) -> TokenStream {
    match value {
        ParameterValue::Rate(rate) => {
            let (count, period) = (rate.count(), duration_expr(rate.period(), expansion));
            quote!(Rate(#expansion::Rate::new(#count, #period)?))
        }
        ParameterValue::Count(count) => quote!(Count(#count)),
        ParameterValue::Duration(duration) => {
            let duration = duration_expr(duration, expansion);
            quote!(Duration(#duration))
        }
        ParameterValue::Keyword(index) => quote!(Keyword(#index)),
    }
}

/// Generates an expression for a duration.
pub(crate) fn duration_expr(duration: Duration, expansion: &TokenStream) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(#expansion::Duration::new(#seconds, #nanos))
}

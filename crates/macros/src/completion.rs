//! Code generation for the function body and for the completion that is reported to the rule.
//!
//! An adaptive rule needs the completion of each call. So the body runs inside the function, and its return value
//! is inspected before it is returned; `return` and `?` in the body only end the body.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Block, Type};

use crate::arguments::Arguments;
use crate::function::Function;

/// True if the completion of calls is reported: a rule decides, and the function returns.
pub(crate) fn reports_completion(function: &Function, arguments: &Arguments) -> bool {
    arguments.rule.is_set() && !matches!(function.return_type(), Some(Type::Never(_)))
}

/// Generates statements that run the body and report its completion to the guard.
pub(crate) fn run_and_report(
    returns: Option<&Type>,
    is_async: bool,
    arguments: &Arguments,
    expansion: &TokenStream,
    destructure: &TokenStream,
    block: &Block,
) -> TokenStream {
    let site = Span::mixed_site();
    // Without this, Rust could not infer the return type of the body.
    let typed = returns.filter(|returned| is_nameable(returned)).map(|returned| {
        quote_spanned! {site=>
            if let #expansion::Option::Some(returned) = #expansion::typed::<#returned>() {
                return returned;
            }
        }
    });
    let body = quote!({ #typed #destructure #block });
    let run = match is_async {
        true => quote_spanned!(site=> async move #body.await),
        false => quote_spanned!(site=> #expansion::run(move || #body)),
    };
    let returned = quote_spanned!(site=> returned);
    let completion = match arguments.overload.get() {
        Some(overload) => quote_spanned!(overload.span()=> #expansion::completion_by(&#returned, #overload)),
        None => quote_spanned! {site=> {
            #[allow(unused_imports)]
            use #expansion::DefaultCompletion as _;
            #expansion::Returned(&#returned).completion()
        }},
    };
    quote_spanned! {site=>
        let #returned = #run;
        guard.complete(#completion);
        #returned
    }
}

/// True if the type can be written inside the body; `impl Trait` cannot.
fn is_nameable(returned: &Type) -> bool {
    fn contains_impl(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => name == "impl",
            TokenTree::Group(group) => contains_impl(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    !contains_impl(returned.to_token_stream())
}

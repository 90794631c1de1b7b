//! The body of a function that a rule decides about, and what the rule learns from it.
//!
//! A rule that protects the process wants to know how a call went. So the body runs within the function, and what it
//! returns is looked at before it is handed on; `return` and `?` in it end the body, and nothing else.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Block, Type};

use crate::arguments::Arguments;
use crate::function::Function;

/// Whether it is told how calls of the function end: if a rule decides, and they do.
pub(crate) fn is_told(function: &Function, arguments: &Arguments) -> bool {
    arguments.rule.is_given() && !matches!(function.returns(), Some(Type::Never(_)))
}

/// Statements that run the body and tell `held` how it ended.
pub(crate) fn told(
    returns: Option<&Type>,
    is_async: bool,
    arguments: &Arguments,
    expansion: &TokenStream,
    taken_apart: &TokenStream,
    block: &Block,
) -> TokenStream {
    let site = Span::mixed_site();
    // Without it, Rust would have to guess what the body returns.
    let typed = returns.filter(|returned| is_nameable(returned)).map(|returned| {
        quote_spanned! {site=>
            if let #expansion::Option::Some(returned) = #expansion::typed::<#returned>() {
                return returned;
            }
        }
    });
    let body = quote!({ #typed #taken_apart #block });
    let run = match is_async {
        true => quote_spanned!(site=> async move #body.await),
        false => quote_spanned!(site=> #expansion::run(move || #body)),
    };
    let returned = quote_spanned!(site=> returned);
    let ending = match arguments.strain.get() {
        Some(strain) => quote_spanned!(strain.span()=> #expansion::ending_by(&#returned, #strain)),
        None => quote_spanned! {site=> {
            #[allow(unused_imports)]
            use #expansion::Untold as _;
            #expansion::Returned(&#returned).ending()
        }},
    };
    quote_spanned! {site=>
        let #returned = #run;
        held.ended(#ending);
        #returned
    }
}

/// Whether a type can be written within the body: not if it is only said what it can do.
fn is_nameable(returned: &Type) -> bool {
    fn says_impl(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(name) => name == "impl",
            TokenTree::Group(group) => says_impl(group.stream()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => false,
        })
    }
    !says_impl(returned.to_token_stream())
}

//! The function, written anew: first the question, then the body as it was.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::token::Brace;
use syn::{AttrStyle, Error, ItemFn, Result, Type};

use crate::arguments::Arguments;
use crate::ending;
use crate::fallback;
use crate::function::Function;
use crate::question::{Answer, Question, at};

/// Puts the question before the body.
pub(crate) fn expand(mut function: Function, arguments: &Arguments) -> Result<TokenStream> {
    let expansion = match arguments.home.get() {
        Some(home) => quote!(#home::attribute::expansion),
        None => quote!(::sluicegate::attribute::expansion),
    };
    let passed = match arguments.on_limit.is_given() {
        true => fallback::Arguments::name(&mut function),
        false => fallback::Arguments::default(),
    };
    let refused = refused(&function, arguments, &passed, &expansion)?;
    let question = Question { arguments, expansion: &expansion };
    let answered = answered(&function, &question, &passed, &refused)?;
    let taken_apart = passed.taken_apart();
    let is_told = ending::is_told(&function, arguments);
    let (returns, is_async) = (function.returns().cloned(), function.is_async());
    let ItemFn { attrs, vis, modifiers, sig, mut block } = function.0;
    let defaultness = modifiers.defaultness;
    let (inner, outer): (Vec<_>, Vec<_>) =
        attrs.into_iter().partition(|attr| matches!(attr.style, AttrStyle::Inner(_)));
    // Nobody wrote braces within braces: rustc would find those of a body on one line superfluous.
    block.brace_token = Brace(Span::mixed_site().located_at(block.brace_token.span.join()));
    let body = match is_told {
        true => ending::told(returns.as_ref(), is_async, arguments, &expansion, &taken_apart, &block),
        false => quote!(#taken_apart #block),
    };
    Ok(quote! {
        #(#outer)*
        #vis #defaultness #sig {
            #(#inner)*
            #answered
            #body
        }
    })
}

/// Statements that ask, and return from the function if the answer is no.
fn answered(
    function: &Function,
    question: &Question<'_>,
    passed: &fallback::Arguments,
    refused: &TokenStream,
) -> Result<TokenStream> {
    // Local names of mixed site are not seen by the body, and do not see it.
    let site = Span::mixed_site();
    let Question { arguments, expansion } = question;
    let (looks, asked) = (passed.looked_at(), question.asked()?);
    let limited = match arguments.on_limit.is_given() {
        true => quote!(_),
        false => quote_spanned!(site=> limited),
    };
    let answer = match question.answer() {
        Answer::AtOnce => {
            return Ok(quote_spanned! {site=>
                if let #expansion::Result::Err(#limited) = { #looks #asked } {
                    #refused;
                }
            });
        }
        Answer::Held => quote_spanned!(site=> answer),
        Answer::InTurn if function.is_async() => quote_spanned!(site=> answer.admitted().await),
        Answer::InTurn => quote_spanned!(site=> answer.blocking()),
    };
    let held = match ending::is_told(function, arguments) {
        true => quote_spanned!(site=> held),
        false => quote_spanned!(site=> _held),
    };
    // The question ends before the answer is awaited, and with it all that it has borrowed. What is held is
    // held until the body has ended, however it ends.
    Ok(quote_spanned! {site=>
        let answer = { #looks #asked };
        let #held = match #answer {
            #expansion::Result::Ok(held) => held,
            #expansion::Result::Err(#limited) => #refused,
        };
    })
}

/// Returns from the function when it was refused, as `limited` says.
fn refused(
    function: &Function,
    arguments: &Arguments,
    passed: &fallback::Arguments,
    expansion: &TokenStream,
) -> Result<TokenStream> {
    if let Some(path) = arguments.on_limit.get() {
        let passed = passed.passed_on();
        let awaited = function.is_async().then(|| quote_spanned!(path.span()=> .await));
        // What never comes back cannot be returned.
        let returned = match function.returns() {
            Some(Type::Never(_)) => None,
            _ => Some(quote_spanned!(path.span()=> return)),
        };
        return Ok(quote_spanned!(path.span()=> #returned #path(#passed)#awaited));
    }
    let Some(returned) = function.returns() else {
        let message = "a limited function that returns nothing cannot say that it was refused: add \
                       `on_limit = fallback`, or return a `Result` whose error implements `From<sluicegate::Limited>`";
        return Err(Error::new(function.0.sig.ident.span(), message));
    };
    // Errors are shown at the type, since that is what may not fit.
    let (refuse, span) = (at(returned.span(), quote!(#expansion::refuse)), returned.span());
    let limited = quote_spanned!(Span::mixed_site()=> limited);
    Ok(quote_spanned!(span=> return #refuse(#limited)))
}

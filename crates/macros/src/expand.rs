//! Expansion of the function: first the check, then the unchanged body.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::token::Brace;
use syn::{AttrStyle, Error, ItemFn, Result, Type};

use crate::arguments::Arguments;
use crate::check::{CheckCodegen, CheckKind, with_span};
use crate::completion;
use crate::fallback;
use crate::function::Function;

/// Puts the check before the body.
pub(crate) fn expand(mut function: Function, arguments: &Arguments) -> Result<TokenStream> {
    let expansion = match arguments.crate_path.get() {
        Some(home) => quote!(#home::attribute::expansion),
        None => quote!(::sluicegate::attribute::expansion),
    };
    let passed = match arguments.on_limit.is_set() {
        true => fallback::ForwardedArguments::name_all(&mut function),
        false => fallback::ForwardedArguments::default(),
    };
    let refused = refusal(&function, arguments, &passed, &expansion)?;
    let codegen = CheckCodegen { arguments, expansion: &expansion };
    let check_code = check_statements(&function, &codegen, &passed, &refused)?;
    let destructure = passed.destructure_statements();
    let reports_completion = completion::reports_completion(&function, arguments);
    let (returns, is_async) = (function.return_type().cloned(), function.is_async());
    let ItemFn { attrs, vis, modifiers, sig, mut block } = function.0;
    let defaultness = modifiers.defaultness;
    let (inner, outer): (Vec<_>, Vec<_>) =
        attrs.into_iter().partition(|attr| matches!(attr.style, AttrStyle::Inner(_)));
    // Gives the inner braces a macro span: rustc would warn about redundant braces around a one-line body.
    block.brace_token = Brace(Span::mixed_site().located_at(block.brace_token.span.join()));
    let body = match reports_completion {
        true => completion::run_and_report(returns.as_ref(), is_async, arguments, &expansion, &destructure, &block),
        false => quote!(#destructure #block),
    };
    Ok(quote! {
        #(#outer)*
        #vis #defaultness #sig {
            #(#inner)*
            #check_code
            #body
        }
    })
}

/// Generates statements that check the limit and return from the function if the call is refused.
fn check_statements(
    function: &Function,
    codegen: &CheckCodegen<'_>,
    passed: &fallback::ForwardedArguments,
    refused: &TokenStream,
) -> Result<TokenStream> {
    // Local names with mixed-site spans are hygienic: they neither see nor shadow names of the body.
    let site = Span::mixed_site();
    let CheckCodegen { arguments, expansion } = codegen;
    let (borrows, check) = (passed.borrow_statements(), codegen.statements()?);
    let limited = match arguments.on_limit.is_set() {
        true => quote!(_),
        false => quote_spanned!(site=> limited),
    };
    let pending = match codegen.kind() {
        CheckKind::Immediate => {
            return Ok(quote_spanned! {site=>
                if let #expansion::Result::Err(#limited) = { #borrows #check } {
                    #refused;
                }
            });
        }
        CheckKind::ImmediatePermit => quote_spanned!(site=> pending),
        CheckKind::Queued if function.is_async() => quote_spanned!(site=> pending.admitted().await),
        CheckKind::Queued => quote_spanned!(site=> pending.blocking()),
    };
    let guard = match completion::reports_completion(function, arguments) {
        true => quote_spanned!(site=> guard),
        false => quote_spanned!(site=> _guard),
    };
    // The check ends, with all its borrows, before its result is awaited. The guard is held until the body has
    // ended, also by a panic.
    Ok(quote_spanned! {site=>
        let pending = { #borrows #check };
        let #guard = match #pending {
            #expansion::Result::Ok(guard) => guard,
            #expansion::Result::Err(#limited) => #refused,
        };
    })
}

/// Generates the return from the function for a refused call.
fn refusal(
    function: &Function,
    arguments: &Arguments,
    passed: &fallback::ForwardedArguments,
    expansion: &TokenStream,
) -> Result<TokenStream> {
    if let Some(path) = arguments.on_limit.get() {
        let passed = passed.forwarded();
        let awaited = function.is_async().then(|| quote_spanned!(path.span()=> .await));
        // A function that never returns cannot use `return`.
        let returned = match function.return_type() {
            Some(Type::Never(_)) => None,
            _ => Some(quote_spanned!(path.span()=> return)),
        };
        return Ok(quote_spanned!(path.span()=> #returned #path(#passed)#awaited));
    }
    let Some(returned) = function.return_type() else {
        let message = "a limited function without a return value cannot report a refusal: add \
                       `on_limit = fallback`, or return a `Result` whose error implements `From<sluicegate::Limited>`";
        return Err(Error::new(function.0.sig.ident.span(), message));
    };
    // Type errors are shown at the return type, which is the likely cause.
    let (refuse, span) = (with_span(returned.span(), quote!(#expansion::refuse)), returned.span());
    let limited = quote_spanned!(Span::mixed_site()=> limited);
    Ok(quote_spanned!(span=> return #refuse(#limited)))
}

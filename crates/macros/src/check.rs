//! Code generation for the check that runs before the function.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use sluicegate_engine::rule::Attribute;
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprLit, ExprTuple, Lit, LitStr, Result};

use crate::arguments::Arguments;
use crate::limits::{duration_expr, limit_expr};

/// Arguments of the attribute, and the path of the runtime module.
pub(crate) struct CheckCodegen<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) expansion: &'a TokenStream,
}

/// Kind of check that is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckKind {
    /// Decides immediately and holds nothing.
    Immediate,
    /// Decides immediately; a permit is held until the call ends.
    ImmediatePermit,
    /// May queue; a permit is held until the call ends.
    Queued,
}

impl CheckCodegen<'_> {
    /// Kind of check for these arguments.
    pub(crate) fn kind(&self) -> CheckKind {
        let Self { arguments, .. } = self;
        if arguments.rule.is_set() || arguments.limiter.is_set() || !arguments.max_wait().is_zero() {
            CheckKind::Queued
        } else if arguments.holds_permits() {
            CheckKind::ImmediatePermit
        } else {
            CheckKind::Immediate
        }
    }

    /// Generates statements that end in an expression for the decision, or for the pending admission.
    pub(crate) fn statements(&self) -> Result<TokenStream> {
        match (self.arguments.limiter.get(), self.arguments.rule.get()) {
            (Some(limiter), _) => Ok(self.check_limiter(limiter)),
            (None, Some(rule)) => self.check_rule(rule),
            (None, None) => {
                let (limiter, check) = (self.limiter_static()?, self.check_inline());
                Ok(quote!(#limiter #check))
            }
        }
    }

    fn check_limiter(&self, limiter: &Expr) -> TokenStream {
        let Self { arguments, expansion } = self;
        let (cost, within) = (self.cost(), self.max_wait());
        let method = match arguments.key.get() {
            Some(key) => quote!(wait_keyed(&(#limiter), &(#key), #cost, #within)),
            None => quote!(wait_unkeyed(&(#limiter), #cost, #within)),
        };
        quote! {
            fn __sluicegate() {}
            #expansion::call_site(&__sluicegate).#method
        }
    }

    /// Generates the function's own limiter, and the cost of this call.
    fn limiter_static(&self) -> Result<TokenStream> {
        let Self { arguments, expansion } = self;
        let limits = arguments.limits()?;
        let limits = limits.iter().map(|limit| limit_expr(limit, expansion));
        let max_waiting = match arguments.max_waiting() {
            Some(callers) => quote!(#expansion::Option::Some(#callers)),
            None => quote!(#expansion::Option::None),
        };
        let cost = self.cost();
        let (kind, max_keys, key) = match arguments.key.get() {
            Some(key) => {
                let (max_keys, key) = (arguments.max_keys(), borrow_key(key));
                (
                    quote!(KeyedByValue),
                    Some(quote!(, #max_keys)),
                    Some(quote_spanned!(Span::mixed_site()=> let key = &#key;)),
                )
            }
            None => (quote!(UnkeyedLimiter), None, None),
        };
        Ok(quote_spanned! {Span::mixed_site()=>
            fn __sluicegate() -> #expansion::InlineLimits {
                #expansion::Result::Ok(#expansion::Vec::from([#(#limits),*]))
            }
            static __SLUICEGATE: #expansion::#kind =
                #expansion::#kind::new(#expansion::call_site(&__sluicegate), __sluicegate, #max_waiting #max_keys);
            #key
            let cost = #cost;
        })
    }

    /// Generates a check of the function's own limiter.
    fn check_inline(&self) -> TokenStream {
        let key = self.arguments.key.get().map(|_| quote_spanned!(Span::mixed_site()=> key,));
        let within = self.max_wait();
        match self.kind() {
            CheckKind::Immediate => quote_spanned!(Span::mixed_site()=> __SLUICEGATE.check(#key cost)),
            CheckKind::ImmediatePermit => quote_spanned!(Span::mixed_site()=> __SLUICEGATE.acquire(#key cost)),
            CheckKind::Queued => quote_spanned!(Span::mixed_site()=> __SLUICEGATE.wait(#key cost, #within)),
        }
    }

    /// Generates a check of a rule, or of the function's own limiter if the rule does not exist.
    fn check_rule(&self, rule: &LitStr) -> Result<TokenStream> {
        let Self { arguments, expansion } = self;
        let (limiter, inline_check) = (self.limiter_static()?, self.check_inline());
        let mut client_ip = quote!(#expansion::Option::None);
        let mut attributes = Vec::new();
        for (attribute, value) in arguments.attributes() {
            match attribute_name(attribute)? {
                None => {
                    let known = with_span(value.span(), quote!(#expansion::client_ip));
                    client_ip = quote_spanned!(value.span()=> #expansion::Option::Some(#known(&(#value))));
                }
                Some(name) => {
                    attributes.push(quote!(#expansion::attribute_value(#expansion::AttributeName::#name, &(#value))));
                }
            }
        }
        let (method, sluice) = match arguments.sluice.get() {
            Some(sluice) => (quote!(check_in), Some(quote!(&(#sluice),))),
            None => (quote!(check), None),
        };
        Ok(quote_spanned! {Span::mixed_site()=>
            #limiter
            static __SLUICEGATE_RULE: #expansion::NamedRule = #expansion::NamedRule::new(#rule);
            __SLUICEGATE_RULE.#method(#sluice cost, #client_ip, &[#(#attributes),*], || #inline_check)
        })
    }

    fn cost(&self) -> TokenStream {
        let expansion = self.expansion;
        let Some(cost) = self.arguments.cost.get() else { return quote!(1) };
        if let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = cost
            && number.suffix().is_empty()
        {
            // Rust infers a signed type for a bare number if several types fit.
            return quote!(#number);
        }
        let cost_fn = with_span(cost.span(), quote!(#expansion::cost));
        quote_spanned!(cost.span()=> #cost_fn(&(#cost)))
    }

    fn max_wait(&self) -> TokenStream {
        duration_expr(self.arguments.max_wait(), self.expansion)
    }
}

/// Sets the span of the tokens, so that errors are shown there.
pub(crate) fn with_span(span: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(span));
        token
    });
    moved.collect()
}

/// Name of an attribute in the expansion; `None` for the client IP, which is not text.
fn attribute_name(attribute: &Attribute) -> Result<Option<TokenStream>> {
    Ok(Some(match attribute {
        Attribute::ClientIp => return Ok(None),
        Attribute::Service => quote!(Service),
        Attribute::Method => quote!(Method),
        Attribute::Host => quote!(Host),
        Attribute::Path => quote!(Path),
        Attribute::Header(name) => quote!(Header(#name)),
        Attribute::Query(name) => quote!(Query(#name)),
        Attribute::Cookie(name) => quote!(Cookie(#name)),
        Attribute::Custom(name) => quote!(Custom(#name)),
        other => return Err(Error::new(Span::call_site(), format!("a function call has no attribute {other}"))),
    }))
}

/// Borrows a key instead of moving it: the parts of a tuple are borrowed one by one.
fn borrow_key(key: &Expr) -> TokenStream {
    match key {
        Expr::Tuple(ExprTuple { elems, .. }) => {
            let parts = elems.iter().map(borrow_key);
            quote!((#(&#parts,)*))
        }
        Expr::Paren(inner) => borrow_key(&inner.expr),
        other => quote!((#other)),
    }
}

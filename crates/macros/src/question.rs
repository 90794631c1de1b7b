//! What a function asks before it runs.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use sluicegate_engine::rule::Attribute;
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprLit, ExprTuple, Lit, LitStr, Result};

use crate::arguments::Arguments;
use crate::limits::{duration, made_again};

/// A question, and the path of what expansions call.
pub(crate) struct Question<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) expansion: &'a TokenStream,
}

/// How the answer to a question comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// At once, and nothing is held.
    AtOnce,
    /// At once, with something that is held until the call ends.
    Held,
    /// When its turn has come, with something that is held until the call ends.
    InTurn,
}

impl Question<'_> {
    /// How the answer comes.
    pub(crate) fn answer(&self) -> Answer {
        let Self { arguments, .. } = self;
        if arguments.rule.is_given() || arguments.limiter.is_given() || !arguments.longest_wait().is_zero() {
            Answer::InTurn
        } else if arguments.holds_permits() {
            Answer::Held
        } else {
            Answer::AtOnce
        }
    }

    /// Statements that ask, ending in an expression for the answer, or for the turn that brings it.
    pub(crate) fn asked(&self) -> Result<TokenStream> {
        match (self.arguments.limiter.get(), self.arguments.rule.get()) {
            (Some(limiter), _) => Ok(self.own_limiter(limiter)),
            (None, Some(rule)) => self.rule(rule),
            (None, None) => {
                let (counting, asked) = (self.counting()?, self.inline());
                Ok(quote!(#counting #asked))
            }
        }
    }

    fn own_limiter(&self, limiter: &Expr) -> TokenStream {
        let Self { arguments, expansion } = self;
        let (cost, within) = (self.cost(), self.within());
        let ask = match arguments.key.get() {
            Some(key) => quote!(ask_by_key(&(#limiter), &(#key), #cost, #within)),
            None => quote!(ask(&(#limiter), #cost, #within)),
        };
        quote! {
            fn __sluicegate() {}
            #expansion::place(&__sluicegate).#ask
        }
    }

    /// The function's own state, and what this call takes of it.
    fn counting(&self) -> Result<TokenStream> {
        let Self { arguments, expansion } = self;
        let limits = arguments.limits()?;
        let limits = limits.iter().map(|limit| made_again(limit, expansion));
        let max_waiting = match arguments.max_waiting() {
            Some(callers) => quote!(#expansion::Option::Some(#callers)),
            None => quote!(#expansion::Option::None),
        };
        let cost = self.cost();
        let (kind, max_keys, key) = match arguments.key.get() {
            Some(key) => {
                let (max_keys, key) = (arguments.max_keys(), by_reference(key));
                (quote!(ByKey), Some(quote!(, #max_keys)), Some(quote_spanned!(Span::mixed_site()=> let key = &#key;)))
            }
            None => (quote!(Together), None, None),
        };
        Ok(quote_spanned! {Span::mixed_site()=>
            fn __sluicegate() -> #expansion::Limits {
                #expansion::Result::Ok(#expansion::Vec::from([#(#limits),*]))
            }
            static __SLUICEGATE: #expansion::#kind =
                #expansion::#kind::new(#expansion::place(&__sluicegate), __sluicegate, #max_waiting #max_keys);
            #key
            let cost = #cost;
        })
    }

    /// Asks the function's own state.
    fn inline(&self) -> TokenStream {
        let key = self.arguments.key.get().map(|_| quote_spanned!(Span::mixed_site()=> key,));
        let within = self.within();
        match self.answer() {
            Answer::AtOnce => quote_spanned!(Span::mixed_site()=> __SLUICEGATE.check(#key cost)),
            Answer::Held => quote_spanned!(Span::mixed_site()=> __SLUICEGATE.enter(#key cost)),
            Answer::InTurn => quote_spanned!(Span::mixed_site()=> __SLUICEGATE.ask(#key cost, #within)),
        }
    }

    /// Asks a rule, or the function's own state if there is no such rule.
    fn rule(&self, rule: &LitStr) -> Result<TokenStream> {
        let Self { arguments, expansion } = self;
        let (counting, beside) = (self.counting()?, self.inline());
        let mut client_ip = quote!(#expansion::Option::None);
        let mut facts = Vec::new();
        for (attribute, value) in arguments.with() {
            match name(attribute)? {
                None => {
                    let known = at(value.span(), quote!(#expansion::client_ip));
                    client_ip = quote_spanned!(value.span()=> #expansion::Option::Some(#known(&(#value))));
                }
                Some(name) => facts.push(quote!(#expansion::fact(#expansion::Name::#name, &(#value)))),
            }
        }
        let (method, sluice) = match arguments.sluice.get() {
            Some(sluice) => (quote!(ask_in), Some(quote!(&(#sluice),))),
            None => (quote!(ask), None),
        };
        Ok(quote_spanned! {Span::mixed_site()=>
            #counting
            static __SLUICEGATE_RULE: #expansion::Named = #expansion::Named::new(#rule);
            __SLUICEGATE_RULE.#method(#sluice cost, #client_ip, &[#(#facts),*], || #beside)
        })
    }

    fn cost(&self) -> TokenStream {
        let expansion = self.expansion;
        let Some(cost) = self.arguments.cost.get() else { return quote!(1) };
        if let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = cost
            && number.suffix().is_empty()
        {
            // Rust takes a bare number for a signed one where several kinds would do.
            return quote!(#number);
        }
        let taken = at(cost.span(), quote!(#expansion::cost));
        quote_spanned!(cost.span()=> #taken(&(#cost)))
    }

    fn within(&self) -> TokenStream {
        duration(self.arguments.longest_wait(), self.expansion)
    }
}

/// The same tokens, so that errors about them are shown at `span`.
pub(crate) fn at(span: Span, tokens: TokenStream) -> TokenStream {
    let moved = tokens.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(span));
        token
    });
    moved.collect()
}

/// The name of an attribute in the expansion; `None` for the client's address, which is no text.
fn name(attribute: &Attribute) -> Result<Option<TokenStream>> {
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
        other => return Err(Error::new(Span::call_site(), format!("a function has no {other}"))),
    }))
}

/// A key that moves nothing: the parts of a tuple are borrowed one by one.
fn by_reference(key: &Expr) -> TokenStream {
    match key {
        Expr::Tuple(ExprTuple { elems, .. }) => {
            let parts = elems.iter().map(by_reference);
            quote!((#(&#parts,)*))
        }
        Expr::Paren(inner) => by_reference(&inner.expr),
        other => quote!((#other)),
    }
}

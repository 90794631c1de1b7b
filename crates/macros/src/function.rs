//! The function under the attribute.

use proc_macro2::TokenStream;
use syn::{
    Error, FnArg, GenericArgument, Ident, Item, ItemFn, Pat, PathArguments, Result, ReturnType, Type, TypeParamBound,
};

/// A function or method with a body.
pub(crate) struct Function(pub(crate) ItemFn);

impl Function {
    /// Parses the item under the attribute; rejects items that cannot be limited.
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let function: ItemFn = match syn::parse2(item.clone()) {
            Ok(function) => function,
            Err(error) => {
                return Err(syn::parse2::<Item>(item).map_or(missing_body(&error), |item| not_a_function(&item)));
            }
        };
        if let Some(constness) = &function.sig.constness {
            let message = "a const fn cannot be limited, since it may run at compile time: remove `const`, or limit the \
                           function that calls it";
            return Err(Error::new_spanned(constness, message));
        }
        let function = Self(function);
        match function.return_type() {
            Some(returned) if !function.is_async() && is_future(returned) => Err(Error::new_spanned(
                returned,
                "the limit would apply to creating the future, not to running it, and would block the thread: \
                 write `async fn`, or put `#[limit]` on an `async fn` that it calls",
            )),
            _ => Ok(function),
        }
    }

    pub(crate) const fn is_async(&self) -> bool {
        self.0.sig.asyncness.is_some()
    }

    /// Return type, if it is written.
    pub(crate) const fn return_type(&self) -> Option<&syn::Type> {
        match &self.0.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, returned) => Some(returned),
        }
    }
}

/// Name of an argument that is a plain identifier.
pub(crate) fn argument_name(argument: &FnArg) -> Option<Ident> {
    match argument {
        FnArg::Receiver(receiver) => Some(Ident::from(receiver.self_token)),
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => Some(pattern.ident.clone()),
            _ => None,
        },
    }
}

/// True if the type is written as a future: `impl Future`, or a boxed one as `#[async_trait]` generates.
fn is_future(returned: &Type) -> bool {
    let is_future_bound = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().is_some_and(|last| last.ident == "Future"),
        _ => false,
    };
    match returned {
        Type::ImplTrait(some) => some.bounds.iter().any(is_future_bound),
        Type::TraitObject(some) => some.bounds.iter().any(is_future_bound),
        Type::Paren(inner) => is_future(&inner.elem),
        Type::Group(inner) => is_future(&inner.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| match &last.arguments {
            PathArguments::AngleBracketed(inside) if last.ident == "Pin" || last.ident == "Box" => {
                inside.args.iter().any(|argument| matches!(argument, GenericArgument::Type(inner) if is_future(inner)))
            }
            _ => last.ident == "BoxFuture" || last.ident == "LocalBoxFuture",
        }),
        _ => false,
    }
}

fn missing_body(error: &Error) -> Error {
    Error::new(error.span(), NEEDS_BODY)
}

const NEEDS_BODY: &str = "`#[limit]` applies to a function or method with a body: in a trait, put it on the methods \
                           of each `impl`";

fn not_a_function(item: &Item) -> Error {
    let message = match item {
        Item::Impl(_) | Item::Trait(_) | Item::Mod(_) => {
            "`#[limit]` applies to a function or method: put it on each function or method in this item"
        }
        Item::Verbatim(_) => NEEDS_BODY,
        _ => "`#[limit]` applies to a function or method",
    };
    Error::new(proc_macro2::Span::call_site(), message)
}

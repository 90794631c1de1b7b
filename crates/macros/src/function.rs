//! What is to be limited.

use proc_macro2::TokenStream;
use syn::{
    Error, FnArg, GenericArgument, Ident, Item, ItemFn, Pat, PathArguments, Result, ReturnType, Type, TypeParamBound,
};

/// A function or method with a body.
pub(crate) struct Function(pub(crate) ItemFn);

impl Function {
    /// Reads the item under the attribute, and refuses what cannot be limited.
    pub(crate) fn read(item: TokenStream) -> Result<Self> {
        let function: ItemFn = match syn::parse2(item.clone()) {
            Ok(function) => function,
            Err(error) => return Err(syn::parse2::<Item>(item).map_or(no_body(&error), |item| no_function(&item))),
        };
        if let Some(constness) = &function.sig.constness {
            let message = "a const fn cannot be limited: it may run while the program is compiled, where nothing is \
                           counted; remove `const`, or limit the function that calls it";
            return Err(Error::new_spanned(constness, message));
        }
        let function = Self(function);
        match function.returns() {
            Some(returned) if !function.is_async() && is_future(returned) => Err(Error::new_spanned(
                returned,
                "a function that returns a future would be limited only while it makes it, and wait on its thread: \
                 write `async fn`, or put `#[limit]` on an `async fn` that it calls",
            )),
            _ => Ok(function),
        }
    }

    pub(crate) const fn is_async(&self) -> bool {
        self.0.sig.asyncness.is_some()
    }

    /// The type it returns, if it says one.
    pub(crate) const fn returns(&self) -> Option<&syn::Type> {
        match &self.0.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, returned) => Some(returned),
        }
    }
}

/// The name an argument goes by as a whole, if it has one.
pub(crate) fn name_of(argument: &FnArg) -> Option<Ident> {
    match argument {
        FnArg::Receiver(receiver) => Some(Ident::from(receiver.self_token)),
        FnArg::Typed(typed) => match &*typed.pat {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => Some(pattern.ident.clone()),
            _ => None,
        },
    }
}

/// Whether a type is written as a future: `impl Future`, or one in a box, as `#[async_trait]` makes them.
fn is_future(returned: &Type) -> bool {
    let named_so = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().is_some_and(|last| last.ident == "Future"),
        _ => false,
    };
    match returned {
        Type::ImplTrait(some) => some.bounds.iter().any(named_so),
        Type::TraitObject(some) => some.bounds.iter().any(named_so),
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

fn no_body(error: &Error) -> Error {
    Error::new(error.span(), WITH_A_BODY)
}

const WITH_A_BODY: &str = "`#[limit]` goes on a function or method with a body: in a trait, put it on the methods of \
                           each `impl`";

fn no_function(item: &Item) -> Error {
    let message = match item {
        Item::Impl(_) | Item::Trait(_) | Item::Mod(_) => {
            "`#[limit]` goes on a function or method: put it on each of those in here that is to be limited"
        }
        Item::Verbatim(_) => WITH_A_BODY,
        _ => "`#[limit]` goes on a function or method",
    };
    Error::new(proc_macro2::Span::call_site(), message)
}

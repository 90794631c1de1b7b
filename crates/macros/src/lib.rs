//! The `#[limit]` attribute of Sluicegate.
//!
//! An attribute passes through in one straight line: `function` looks at what is to be limited,
//! `arguments` reads what stands in the brackets, `long_form` makes the limits with the engine's own
//! constructors, and `expand` writes the function anew. Nothing is decided in here: the expansion calls
//! `sluicegate::attribute::expansion`.

mod arguments;
mod ending;
mod expand;
mod fallback;
mod function;
mod given;
mod limits;
mod long_form;
mod question;
mod with;
mod written;

use proc_macro2::TokenStream;
use quote::quote;

use arguments::Arguments;
use function::Function;

/// Limits how often a function or method may run. It is described where it is used from: at
/// `sluicegate::limit`.
#[proc_macro_attribute]
pub fn limit(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = TokenStream::from(item);
    let limited = limited(arguments.into(), item.clone()).unwrap_or_else(|error| {
        // The item goes on as it is, so that the mistake is the only error there is.
        let error = error.to_compile_error();
        quote!(#error #item)
    });
    limited.into()
}

fn limited(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let function = Function::read(item)?;
    let arguments: Arguments = syn::parse2(arguments)?;
    expand::expand(function, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: TokenStream, item: TokenStream) -> String {
        limited(arguments, item).unwrap().to_string()
    }

    #[test]
    fn a_plain_limit_is_one_static_and_one_check() {
        let expanded = expanded(
            quote!("2/3s"),
            quote!(
                fn order(item: u32) -> Result<u32, Limited> {
                    Ok(item)
                }
            ),
        );
        for (piece, times) in [("static", 1), (". check (cost)", 1), ("admitted", 0), ("blocking", 0), ("match", 0)] {
            assert_eq!(expanded.matches(piece).count(), times, "{piece} in {expanded}");
        }
        assert!(expanded.ends_with("{ Ok (item) } }"), "the body stays as it was: {expanded}");
    }

    #[test]
    fn a_signature_changes_only_where_a_fallback_needs_a_name() {
        let item = quote!(
            fn order((a, b): (u32, u32)) -> Result<u32, Limited> {
                Ok(a + b)
            }
        );
        assert!(expanded(quote!(), item.clone()).starts_with("fn order ((a , b) : (u32 , u32)) ->"));
        let named = expanded(quote!(on_limit = busy), item);
        assert!(named.starts_with("fn order (argument_0 : (u32 , u32)) ->"), "{named}");
        assert!(named.contains("return busy (argument_0)"), "{named}");
    }
}

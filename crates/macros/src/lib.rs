//! The `#[limit]` attribute macro of Sluicegate.
//!
//! - `function`: the function under the attribute.
//! - `arguments`: parser for the attribute's arguments.
//! - `limit_syntax`: limits such as `token_bucket("10/s", burst = 20)`, built with the engine's own constructors.
//! - `attributes`: parser for `with(...)`, the attributes that are passed to a rule.
//! - `once`: options that may be set only once.
//! - `errors`: literals and "did you mean" errors.
//! - `expand`: writes the function with its check.
//! - `check`: code generation for the check.
//! - `completion`: code generation for the body and for the completion that is reported to a rule.
//! - `fallback`: code generation for `on_limit`.
//! - `limits`: limits as expressions in the expansion.
//!
//! The macro decides nothing: the expansion calls `sluicegate::attribute::expansion`.

mod arguments;
mod attributes;
mod check;
mod completion;
mod errors;
mod expand;
mod fallback;
mod function;
mod limit_syntax;
mod limits;
mod once;

use proc_macro2::TokenStream;
use quote::quote;

use arguments::Arguments;
use function::Function;

/// Rate limit on a function or method. Documented at `sluicegate::limit`.
#[proc_macro_attribute]
pub fn limit(arguments: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let item = TokenStream::from(item);
    let limited = expand_limit(arguments.into(), item.clone()).unwrap_or_else(|error| {
        // The item is emitted unchanged, so that this is the only compile error.
        let error = error.to_compile_error();
        quote!(#error #item)
    });
    limited.into()
}

fn expand_limit(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let function = Function::parse(item)?;
    let arguments: Arguments = syn::parse2(arguments)?;
    expand::expand(function, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: TokenStream, item: TokenStream) -> String {
        expand_limit(arguments, item).unwrap().to_string()
    }

    #[test]
    fn a_plain_limit_expands_to_one_static_and_one_check() {
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
        assert!(expanded.ends_with("{ Ok (item) } }"), "the body is unchanged: {expanded}");
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

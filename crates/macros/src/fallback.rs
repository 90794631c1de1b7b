//! Code generation for `on_limit`: calls another function with the same arguments.
//!
//! An argument that is a pattern has no name to forward. It gets one: key, cost and attributes then see the parts
//! by reference, the fallback gets the value itself, and the body destructures it as before.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{FnArg, Pat, PatIdent, PatType};

use crate::function::{Function, argument_name};

/// Function arguments that are also forwarded to the fallback.
#[derive(Default)]
pub(crate) struct ForwardedArguments {
    names: Vec<Ident>,
    patterns: Vec<(Pat, Ident)>,
}

impl ForwardedArguments {
    /// Gives every argument a name.
    pub(crate) fn name_all(function: &mut Function) -> Self {
        let mut arguments = Self::default();
        for (position, argument) in function.0.sig.inputs.iter_mut().enumerate() {
            let name = argument_name(argument).unwrap_or_else(|| {
                let name = format_ident!("argument_{position}", span = Span::mixed_site());
                if let FnArg::Typed(PatType { pat, .. }) = argument {
                    let named = Pat::Ident(PatIdent {
                        attrs: Vec::new(),
                        by_ref: None,
                        mutability: None,
                        ident: name.clone(),
                        subpat: None,
                    });
                    let pattern = std::mem::replace(&mut **pat, named);
                    arguments.patterns.push((pattern, name.clone()));
                }
                name
            });
            arguments.names.push(name);
        }
        arguments
    }

    /// The arguments of the fallback call.
    pub(crate) fn forwarded(&self) -> TokenStream {
        let names = &self.names;
        quote!(#(#names),*)
    }

    /// Generates statements that borrow the parts of destructured arguments.
    pub(crate) fn borrow_statements(&self) -> TokenStream {
        let borrows = self.patterns.iter().map(|(pattern, name)| {
            let mut pattern = pattern.clone();
            RefPatterns.visit_pat_mut(&mut pattern);
            quote!(#[allow(unused_variables)] let #pattern = &#name;)
        });
        quote!(#(#borrows)*)
    }

    /// Generates statements that destructure the arguments with their original patterns.
    pub(crate) fn destructure_statements(&self) -> TokenStream {
        // Parts that only a key uses are unused afterwards.
        let bindings =
            self.patterns.iter().map(|(pattern, name)| quote!(#[allow(unused_variables)] let #pattern = #name;));
        quote!(#(#bindings)*)
    }
}

/// Makes a pattern match a reference: its bindings become references, without `mut` and `ref`.
struct RefPatterns;

impl VisitMut for RefPatterns {
    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        pattern.by_ref = None;
        pattern.mutability = None;
        visit_mut::visit_pat_ident_mut(self, pattern);
    }
}

//! Calling another function instead, with the same arguments.
//!
//! An argument that is taken apart by its pattern has no name to be passed on by. It gets one: key, cost
//! and attributes then see the parts by reference, the other function gets the whole, and the body takes
//! it apart as before.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{FnArg, Pat, PatIdent, PatType};

use crate::function::{Function, name_of};

/// The arguments of a function whose fallback gets them too.
#[derive(Default)]
pub(crate) struct Arguments {
    names: Vec<Ident>,
    patterns: Vec<(Pat, Ident)>,
}

impl Arguments {
    /// Gives every argument a name.
    pub(crate) fn name(function: &mut Function) -> Self {
        let mut arguments = Self::default();
        for (position, argument) in function.0.sig.inputs.iter_mut().enumerate() {
            let name = name_of(argument).unwrap_or_else(|| {
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

    /// The arguments, to be passed on.
    pub(crate) fn passed_on(&self) -> TokenStream {
        let names = &self.names;
        quote!(#(#names),*)
    }

    /// Statements that let the parts be looked at.
    pub(crate) fn looked_at(&self) -> TokenStream {
        let looks = self.patterns.iter().map(|(pattern, name)| {
            let mut pattern = pattern.clone();
            ByReference.visit_pat_mut(&mut pattern);
            quote!(#[allow(unused_variables)] let #pattern = &#name;)
        });
        quote!(#(#looks)*)
    }

    /// Statements that take the arguments apart as the function said.
    pub(crate) fn taken_apart(&self) -> TokenStream {
        // Parts that only a key looks at are not used again.
        let takes =
            self.patterns.iter().map(|(pattern, name)| quote!(#[allow(unused_variables)] let #pattern = #name;));
        quote!(#(#takes)*)
    }
}

/// Makes a pattern fit a reference: its variables are references then, and say nothing of `mut` and `ref`.
struct ByReference;

impl VisitMut for ByReference {
    fn visit_pat_ident_mut(&mut self, pattern: &mut PatIdent) {
        pattern.by_ref = None;
        pattern.mutability = None;
        visit_mut::visit_pat_ident_mut(self, pattern);
    }
}

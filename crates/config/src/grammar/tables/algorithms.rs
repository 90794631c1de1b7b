//! Long forms of a limit, from the engine's descriptions of the algorithms.

use sluicegate_engine::algorithm::{self, Describe, Description, Parameter, ParameterKind};

use crate::grammar::{Field, Presence, Section, Shape};

macro_rules! algorithm_sections {
    ($($(#[$doc:meta])* $algorithm:ident $script:literal;)*) => {
        /// Long forms of a limit. The first field of each names the algorithm.
        pub(crate) const ALGORITHMS: &[&Section] = &[$(&section::<{ parameters::<algorithm::$algorithm>().len() }>(
            <algorithm::$algorithm as Describe>::DESCRIPTION,
            &fields::<{ parameters::<algorithm::$algorithm>().len() }>(parameters::<algorithm::$algorithm>()),
        )),*];
    };
}
sluicegate_engine::for_each_algorithm!(algorithm_sections);

const fn parameters<A: Describe>() -> &'static [Parameter] {
    A::DESCRIPTION.parameters
}

const fn section<const N: usize>(description: &'static Description, fields: &'static [Field; N]) -> Section {
    Section { name: description.title, doc: description.doc, fields }
}

/// Fields of the parameters; `N` is their number.
const fn fields<const N: usize>(parameters: &'static [Parameter]) -> [Field; N] {
    let mut fields =
        [const { Field { name: "", doc: "", shape: Shape::Json, presence: Presence::Required, example: "" } }; N];
    let mut index = 0;
    while index < N {
        fields[index] = field(&parameters[index]);
        index += 1;
    }
    fields
}

const fn field(parameter: &'static Parameter) -> Field {
    let presence = match parameter.default {
        Some(default) => Presence::Default(default),
        None => Presence::Required,
    };
    let shape = match parameter.kind {
        ParameterKind::Rate | ParameterKind::Window => Shape::Rate,
        ParameterKind::ByteRate => Shape::SizeRate,
        ParameterKind::Count(min, max) => Shape::Count(min, max),
        ParameterKind::Size => Shape::Size,
        ParameterKind::Duration => Shape::Duration,
        ParameterKind::Keyword(words) => Shape::Keyword(words),
    };
    Field { name: parameter.name, doc: parameter.doc, shape, presence, example: parameter.example }
}

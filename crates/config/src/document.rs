//! Parser of YAML documents with declared fields: the parts that other formats share with the rule file.
//!
//! An importer declares its [sections](Section), [parses](parse_tree) a [text](SourceText) to a tree, opens
//! each map as a [`FieldMap`] and converts its [values](FieldValue). Its errors then have the same spans,
//! suggestions and rendering as those of a rule file.

pub use crate::diagnostic::{DiagnosticBuilder, DiagnosticSink, quoted};
pub use crate::grammar::tables::{ABSENT, LIMIT, fields};
pub use crate::grammar::{Field, Presence, Section, Shape, SignalUnit};
pub use crate::parse::{
    FieldMap, FieldValue, MAX_LIMITS, MAX_RULES, ParseContext, json as to_json, limit as parse_limit,
};
pub use crate::source::{ReadError, SourceText, read as read_file};
pub use crate::tree::{MapEntry, Node, Value, parse as parse_tree};

use std::collections::BTreeSet;

use super::{Shape, schema, tables};
use crate::parse::{ParseContext, json, parse_file};
use crate::tree;

/// Opens every section once, with minimal content.
const ALL_SECTIONS: &str = "
rules:
  - name: a
    key: [{ attribute: client.ip }]
    cost: {}
    cluster: {}
    ban: {}
    on_limit: { queue: {}, then: { redirect: {} }, degrade: {} }
    adaptive: { when: { load1: { enter: '> 1' } } }
    limits:
      - { token_bucket: 1/s }
      - { leaky_bucket: 1/s }
      - { fixed_window: 1/s }
      - { sliding_window: 1/s }
      - { interpolated_window: 1/s }
      - { sliding_log: 1/s }
      - { concurrency: 1 }
      - { bandwidth: 1/s }
      - { warm_up: 1/s }
  - { name: b, adaptive: { auto: {} } }
  - { name: c, adaptive: { cpu: {} } }
lists: {}
store: {}
gateway:
  listen: [{ tls: {} }]
  connections: {}
  attributes: {}
  jwt: {}
  timeouts: {}
  access_log: {}
  upstreams: { a: { health: {}, timeouts: {} } }
  routes: [{ respond: { redirect: {} } }]
server: { rls: { tls: {} }, connections: {}, timeouts: {} }
admin: { tls: {}, otlp: {} }
log: {}
";

/// Guards against a field that is declared but not parsed, or parsed but refused as unknown.
#[test]
fn the_parser_reads_exactly_the_declared_fields() {
    let (tree, findings) = tree::parse(ALL_SECTIONS);
    assert!(!findings.has_errors());
    let tree = tree.unwrap();
    let context = ParseContext::new(ALL_SECTIONS, None);
    parse_file(&context, &tree);
    let declared: BTreeSet<_> =
        tables::sections().flat_map(|section| section.names().map(|name| (section.name, name))).collect();
    assert_eq!(*context.requested_fields.borrow(), declared);
}

#[test]
fn every_section_that_is_used_is_listed() {
    fn visit(shape: &Shape, found: &mut BTreeSet<&'static str>) {
        match shape {
            Shape::Section(section) if found.insert(section.name) => {
                section.fields.iter().for_each(|field| visit(&field.shape, found));
            }
            Shape::OneOf(sections) => sections.iter().for_each(|section| visit(&Shape::Section(section), found)),
            Shape::List(shape) | Shape::Map(shape) => visit(shape, found),
            Shape::Either(shapes) => shapes.iter().for_each(|shape| visit(shape, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    visit(&Shape::Section(&tables::FILE), &mut found);
    assert_eq!(found, tables::sections().map(|section| section.name).collect());
}

#[test]
fn every_example_matches_the_schema() {
    for section in tables::sections() {
        for field in section.fields {
            let (tree, findings) = tree::parse(field.example);
            assert!(!findings.has_errors(), "{}.{}", section.name, field.name);
            let value = json(&ParseContext::new(field.example, None), &tree.unwrap()).unwrap();
            let validator = jsonschema::validator_for(&schema::shape(&field.shape)).unwrap();
            assert!(validator.is_valid(&value), "{}.{}: {value}", section.name, field.name);
        }
    }
}

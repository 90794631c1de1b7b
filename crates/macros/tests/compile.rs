//! Compile tests: valid uses of the attribute, and the error messages for invalid ones.
//!
//! `TRYBUILD=overwrite cargo test -p sluicegate-macros --test compile` updates the messages.

#[test]
fn valid_use_compiles_and_misuse_is_explained() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
}

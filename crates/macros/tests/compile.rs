//! What the attribute takes, and what it says to those who use it wrongly.
//!
//! `TRYBUILD=overwrite cargo test -p sluicegate-macros --test compile` writes the messages anew.

#[test]
fn right_use_compiles_and_wrong_use_says_how_to_do_it_right() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
}

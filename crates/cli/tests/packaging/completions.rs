//! Completions, asked for as a shell asks when somebody presses the tabulator.

use std::process::Command;

use crate::program::ran;
use crate::{commands, said};

/// What bash offers for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    const ASK: &str = r#"
        source /dev/stdin <<< "$SCRIPT"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        # As bash calls it: the command, the word, and the one before.
        function=$(complete -p sluicegate | sed 's/.* -F \([^ ]*\).*/\1/')
        "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        [[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", ASK, "bash"]).args(words);
    let mut offered: Vec<_> =
        ran(bash.env("SCRIPT", said(&["completions", "bash"]))).lines().map(str::to_owned).collect();
    offered.sort_unstable();
    offered
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let mut first = offered(&["sluicegate", ""]);
    first.retain(|word| !word.starts_with('-') && word != "help");
    let mut expected = commands();
    expected.sort_unstable();
    assert_eq!(first, expected);

    assert_eq!(offered(&["sluicegate", "comp"]), ["completions"]);
    assert_eq!(offered(&["sluicegate", "check", "--deny"]), ["--deny-warnings"]);
    assert_eq!(offered(&["sluicegate", "check", "--format", ""]), ["json", "table"]);
    assert_eq!(offered(&["sluicegate", "import", "ngi"]), ["nginx"]);
    assert_eq!(offered(&["sluicegate", "completions", "z"]), ["zsh"]);
    assert_eq!(offered(&["sluicegate", "no-such-command", "x"]), [""; 0]);
}

#[test]
fn the_other_shells_have_every_command_too() {
    for shell in ["zsh", "fish"] {
        let script = said(&["completions", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
}

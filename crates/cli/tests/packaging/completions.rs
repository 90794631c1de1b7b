//! Shell completions, requested the way a shell does.

use std::process::Command;

use super::program::run_command;
use super::{commands, stdout_of};

/// Completions that bash offers for the last word.
fn completions_for(words: &[&str]) -> Vec<String> {
    const COMPLETION_SCRIPT: &str = r#"
        source /dev/stdin <<< "$SCRIPT"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        # As bash calls it: the command, the word, and the one before.
        function=$(complete -p sluicegate | sed 's/.* -F \([^ ]*\).*/\1/')
        "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        [[ ${#COMPREPLY[@]} -eq 0 ]] || printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", COMPLETION_SCRIPT, "bash"]).args(words);
    let mut offered: Vec<_> =
        run_command(bash.env("SCRIPT", stdout_of(&["completions", "bash"]))).lines().map(str::to_owned).collect();
    offered.sort_unstable();
    offered
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let mut first = completions_for(&["sluicegate", ""]);
    first.retain(|word| !word.starts_with('-') && word != "help");
    let mut expected = commands();
    expected.sort_unstable();
    assert_eq!(first, expected);

    assert_eq!(completions_for(&["sluicegate", "comp"]), ["completions"]);
    assert_eq!(completions_for(&["sluicegate", "check", "--deny"]), ["--deny-warnings"]);
    assert_eq!(completions_for(&["sluicegate", "check", "--format", ""]), ["json", "table"]);
    assert_eq!(completions_for(&["sluicegate", "import", "ngi"]), ["nginx"]);
    assert_eq!(completions_for(&["sluicegate", "completions", "z"]), ["zsh"]);
    assert_eq!(completions_for(&["sluicegate", "no-such-command", "x"]), [""; 0]);
}

#[test]
fn other_shells_have_every_command() {
    for shell in ["zsh", "fish"] {
        let script = stdout_of(&["completions", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
}

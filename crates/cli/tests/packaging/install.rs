//! `docs/install.md`, followed from the archive to the removal.
//!
//! The archive is built by the real packaging script from the program under test. A directory stands in for the
//! root file system, and a network namespace has the example's ports free. Of systemd, only the parts that work
//! without PID 1 are used: it verifies and enables units, and creates users. The test starts and signals the
//! service itself, as the unit specifies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sluicegate_testkit::netns;

use super::page::{PageStep, blocks, steps};
use super::program::run_command;
use super::{TestDir, read, root};

pub(crate) const PAGE: &str = "docs/install.md";

/// Script that simulates the machine; its root is `$ROOT`.
const FAKE_ROOT_SCRIPT: &str = r#"
set -euo pipefail
units=$ROOT/usr/local/lib/systemd/system
sudo() { "$@"; }
systemd-sysusers() { command systemd-sysusers --root="$ROOT" "$@"; }
userdel() { grep --quiet "^$1:" "$ROOT/etc/passwd"; }
man() { [[ -f $HOME/.cargo/share/man/man1/$1.1 ]]; }
ready() { for _ in {1..600}; do sluicegate health >/dev/null 2>&1 && return; sleep 0.1; done; return 1; }
systemctl() {
    case "$*" in
    daemon-reload) ;;
    'enable --now sluicegate.socket sluicegate.service')
        # With the program where it is here: it must be there.
        cp -R "$units" "$ROOT/verified"
        sed -i "s#=/usr/local/#=$ROOT/usr/local/#" "$ROOT/verified/sluicegate.service"
        systemd-analyze verify --man=no "$ROOT"/verified/*
        rm -r "$ROOT/verified"
        command systemctl --quiet --root="$ROOT" enable "${@:3}"
        mkdir -p "$ROOT/var/log/sluicegate"
        local start
        start=$(sed -n 's/^ExecStart=//p' "$units/sluicegate.service")
        $(sed "s# /# $ROOT/#g; s#^/#$ROOT/#" <<<"$start") 2>"$ROOT/log" &
        main=$!
        ready
        ;;
    'kill --kill-who=main --signal=USR2 sluicegate')
        kill -USR2 "$main"
        # The old process ends when its successor serves.
        wait "$main"
        ready
        ;;
    'disable --now sluicegate.socket sluicegate.service')
        command systemctl --quiet --root="$ROOT" disable "${@:3}"
        ;;
    *) echo "systemctl $*?" >&2; return 1 ;;
    esac
}
"#;

/// All files below a directory.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() && !path.is_symlink() { files(&path) } else { vec![path] }).collect()
}

/// The page's commands with their paths below `$ROOT`.
fn script(steps: &[PageStep], archive: &str) -> String {
    let commands = steps.iter().flat_map(|step| &step.commands).map(|command| {
        let below = ["/usr/local/", "/etc/", "/var/"]
            .iter()
            .fold(command.clone(), |command, path| command.replace(&format!(" {path}"), &format!(" $ROOT{path}")));
        below.replace("sluicegate-0.1.0-x86_64-unknown-linux-gnu", archive)
    });
    commands.map(|command| format!("echo '$ {}'\n{command}\n", command.replace('\'', "\""))).collect()
}

#[test]
fn archive_installs_and_uninstalls_as_documented() {
    let folder = TestDir::new("install");
    // Like `make package`, without the build.
    let made = run_command(
        Command::new(root().join("scripts/package"))
            .arg(env!("CARGO_BIN_EXE_sluicegate"))
            .env("CARGO_TARGET_DIR", &folder.0),
    );
    assert!(made.contains("\nruns with glibc 2."), "{made}");
    let archive = Path::new(made.lines().next().unwrap());
    assert_archive_complete(archive, &folder.0.join("unpacked"));
    if let Some(shell) = netns::shell() {
        assert_install_and_removal(archive, &folder.0, shell);
    }
}

/// The table of archive contents is complete and exact.
fn assert_archive_complete(archive: &Path, folder: &Path) {
    fs::create_dir(folder).unwrap();
    run_command(Command::new("tar").arg("-xzf").arg(archive).args(["--strip-components=1", "-C"]).arg(folder));
    let page = read(PAGE);
    let rows = page.lines().skip_while(|line| !line.starts_with("| path in the archive |")).skip(2);
    let listed: Vec<&str> = rows
        .take_while(|line| line.starts_with('|'))
        .flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2))
        .map(|path| path.trim_end_matches("/*").trim_end_matches("/*.1"))
        .collect();
    assert!(listed.len() > 8, "{listed:?}");
    for path in &listed {
        assert!(folder.join(path).exists(), "{path} is not in it");
    }
    for file in files(folder) {
        let file = file.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        let is_listed = listed.iter().any(|path| file.starts_with(path)) || file == "SHA256SUMS";
        assert!(is_listed, "{file} is in the archive, but not on the page");
    }
}

/// Runs the page's commands, from the archive on.
fn assert_install_and_removal(archive: &Path, folder: &Path, mut shell: Command) {
    let [machine, home] = ["root", "home"].map(|name| folder.join(name));
    for path in [&machine.join("usr/local"), &machine.join("etc"), &home] {
        fs::create_dir_all(path).unwrap();
    }
    let name = archive.file_name().unwrap().to_str().unwrap().strip_suffix(".tar.gz").unwrap();
    let typed = script(&steps(&read(PAGE)), name);
    let (before, removing) = typed.split_at(typed.find("echo '$ sudo systemctl disable").unwrap());
    let listing = |when: &str| format!("(cd \"$ROOT\" && find . -type f -o -type l >\"$ROOT/../{when}\")\n");
    let text = format!("{FAKE_ROOT_SCRIPT}{before}{}{removing}{}", listing("before"), listing("after"));
    let path = format!("{}/usr/local/bin:{}:/usr/sbin", machine.display(), std::env::var("PATH").unwrap());
    shell.env("ROOT", &machine).env("HOME", &home).env("PATH", path).current_dir(folder.join("package"));
    let output = shell.args(["-c", &text]).stdin(Stdio::null()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let log = fs::read_to_string(machine.join("log")).unwrap_or_default();
    assert!(output.status.success(), "{out}\n{err}\n{log}");
    assert!(out.contains("\nsluicegate 0.1.0\n") && out.contains(" is ready\n"), "{out}");

    let [before, after] = ["before", "after"].map(|when| fs::read_to_string(folder.join(when)).unwrap());
    for installed in ["bin/sluicegate", "share/man/man1/sluicegate-run.1", "share/zsh/site-functions/_sluicegate"] {
        assert!(before.contains(&format!("./usr/local/{installed}\n")), "{before}");
    }
    let left: Vec<&str> = after.lines().filter(|file| file.contains("sluicegate")).collect();
    assert!(left.is_empty(), "the removal leaves {left:?}");
    let completions = [".local/share/bash-completion/completions/sluicegate", ".zfunc/_sluicegate"];
    for file in completions.into_iter().chain([".config/fish/completions/sluicegate.fish"]) {
        assert!(fs::read_to_string(home.join(file)).unwrap().contains("sluicegate"), "{file}");
    }
}

/// `cargo install` takes minutes; this checks its inputs instead: the package exists and has a lock file.
#[test]
fn cargo_install_path_is_valid() {
    for page in ["README.md", "README.zh-CN.md", "docs/start.md", "docs/zh/start.md", PAGE] {
        let text = read(page);
        // The second command works after the first release only.
        for command in text.split("cargo install ").skip(1).filter(|it| !it.starts_with("sluicegate-cli`")) {
            let words: Vec<&str> = command.split([' ', '`', '\n', '）', ')']).take(3).collect();
            assert_eq!(words, ["--locked", "--path", "crates/cli"], "{page}");
        }
    }
    assert!(read("crates/cli/Cargo.toml").contains("name = \"sluicegate\""));
}

/// Copied files exist, the image builds like the archive, and the page's commands match the file.
#[test]
fn containerfile_matches_the_project() {
    let file = read("packaging/Containerfile");
    let lines = file.replace("\\\n", " ");
    let ignored = read(".containerignore");
    let mut copied = Vec::new();
    for line in lines.lines().filter_map(|line| line.strip_prefix("COPY ")).filter(|line| !line.starts_with("--from")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        copied.extend_from_slice(&words[..words.len() - 1]);
    }
    for path in &copied {
        assert!(root().join(path).exists(), "{path} is copied and not there");
        assert!(!ignored.lines().any(|line| line == *path), "{path} is copied and ignored");
    }
    // Cargo reads all manifests of the workspace before it builds a member.
    let workspace = read("Cargo.toml");
    let members = workspace.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        assert!(copied.iter().any(|path| member.starts_with(path)), "{member} is not copied");
    }
    for path in ["Cargo.toml", "Cargo.lock"] {
        assert!(copied.contains(&path), "{path} is not copied");
    }
    let build = "cargo build --release --locked -p sluicegate-cli";
    assert!(lines.contains(build) && read("scripts/package").contains(build));
    for installed in lines.split("install -D -m 644 ").skip(1) {
        let source = installed.split(' ').next().unwrap();
        assert!(root().join(source).exists(), "{source} is installed and not there");
        assert!(copied.iter().any(|path| source.starts_with(path)), "{source} is installed and not copied");
    }
    let pinned = read("rust-toolchain.toml");
    let version = pinned.split("channel = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert!(file.contains(&format!("rust:{version}-")), "built by another Rust than {version}");
    let shown = blocks(&read(PAGE)).into_iter().find(|block| block.text.starts_with("podman build")).unwrap();
    for command in shown.text.lines() {
        let command = command.split("   #").next().unwrap().trim_end();
        assert!(file.contains(&format!("#   {command}\n")), "`{command}` is not in the head of the file");
    }
}

#[test]
fn build_outputs_are_excluded_from_the_image_context() {
    let [container, docker] = [".containerignore", ".dockerignore"].map(read);
    assert_eq!(container, docker, "podman reads the one, docker the other");
    for folder in ["target", ".git"] {
        assert!(container.lines().any(|line| line == folder), "{folder}");
    }
}

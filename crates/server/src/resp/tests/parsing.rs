//! The parser with arbitrary chunking.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::parse::{ParseStatus, ProtocolError, RespParser};
use super::command;

const MAX_BYTES: usize = 4_096;

/// All commands in these bytes, split at these positions, and the error at the end.
fn parsed(bytes: &[u8], cuts: &[usize]) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut parser = RespParser::new(MAX_BYTES);
    let (mut commands, mut start) = (Vec::new(), 0);
    let ends = cuts.iter().map(|cut| *cut.min(&bytes.len())).chain([bytes.len()]);
    for end in ends {
        while start < end {
            let here = &bytes[start..end];
            match parser.parse(here, true) {
                Ok(ParseStatus::Incomplete) => break,
                Ok(ParseStatus::Empty(taken)) => start += taken,
                Ok(ParseStatus::Command(taken)) => {
                    commands.push(parser.command(here).words_from(0).map(<[u8]>::to_vec).collect());
                    parser.reset();
                    start += taken;
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fn words(line: &str) -> Result<Vec<Vec<u8>>, ProtocolError> {
    match parsed(format!("{line}\r\n").as_bytes(), &[]) {
        (_, Some(error)) => Err(error),
        (commands, None) => Ok(commands.into_iter().next().unwrap_or_default()),
    }
}

#[test]
fn inline_commands_split_as_in_redis() {
    for (line, expected) in [
        ("a b", vec!["a", "b"]),
        ("  a   b  ", vec!["a", "b"]),
        ("a \"b c\" 'd e'", vec!["a", "b c", "d e"]),
        (r#""\n\r\t\b\a\x41\q\"\\""#, vec!["\n\r\t\u{8}\u{7}Aq\"\\"]),
        (r"'\n\''", vec![r"\n'"]),
        ("a\"b\"", vec!["ab"]),
        ("\"\"", vec![""]),
        (r#""\xZZ""#, vec!["xZZ"]),
        ("", vec![]),
    ] {
        assert_eq!(words(line), Ok(expected.iter().map(|word| word.as_bytes().to_vec()).collect()), "{line}");
    }
    for line in ["\"", "'", "a \"b", "\"a\"b", "'a'b", r#""\"#] {
        assert_eq!(words(line), Err(ProtocolError::Quotes), "{line}");
    }
}

#[test]
fn a_command_split_at_any_byte_parses_the_same() {
    let bytes =
        [command(&[b"CL.THROTTLE", b"key:1", b"100", b"100", b"60"]), b"PING\r\n".to_vec(), command(&[b"", b"\r\n"])]
            .concat();
    let unsplit = parsed(&bytes, &[]);
    assert_eq!(unsplit.0.len(), 3);
    for cut in 0..bytes.len() {
        assert_eq!(parsed(&bytes, &[cut]), unsplit, "{cut}");
    }
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(parsed(&bytes, &every), unsplit);
}

/// Bytes that are often valid commands, or nearly so.
fn wire() -> impl Strategy<Value = Vec<u8>> {
    let word = || vec(any::<u8>(), 0..12);
    let chunk = prop_oneof![
        6 => vec(word(), 1..6).prop_map(|words| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            command(&words)
        }),
        2 => "[ -~]{0,30}\r\n".prop_map(String::into_bytes),
        1 => "[*$][-0-9]{0,20}\r\n".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..30),
    ];
    vec(chunk, 0..8).prop_map(|chunks| chunks.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_commands(bytes in wire(), mut cuts in vec(0..400usize, 0..20)) {
        cuts.sort_unstable();
        prop_assert_eq!(parsed(&bytes, &cuts), parsed(&bytes, &[]));
    }

    #[test]
    fn commands_round_trip(words in vec(vec(any::<u8>(), 0..50), 1..20)) {
        let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(parsed(&command(&slices), &[]), (vec![words], None));
    }
}

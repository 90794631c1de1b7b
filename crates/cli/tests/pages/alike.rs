//! Whether an answer is the one that a page shows, but for what differs each time: dates, ids, times that pass.

/// What of an answer stays the same each time, line by line. The first line and those behind a blank one keep their
/// order; the headers between them are sorted, and those left out that only a proxy's mood decides about.
pub(crate) fn lasting(answer: &str) -> Vec<String> {
    let answer = answer.replace('\r', "");
    let lines: Vec<&str> = answer.trim_matches('\n').lines().map(str::trim_end).collect();
    let is_http = lines.first().is_some_and(|line| line.starts_with("HTTP/"));
    let head = if is_http { lines.iter().position(|line| line.is_empty()).unwrap_or(lines.len()) } else { 0 };
    let mut headers: Vec<String> = lines[..head].iter().skip(1).map(|line| line.to_lowercase()).collect();
    headers.retain(|line| !PASSING.iter().any(|name| line.starts_with(name)));
    headers.sort();
    let first = lines[..head].first().map(|line| (*line).to_owned());
    let body = lines[head..].iter().map(|line| without_remark(line).to_owned());
    first.into_iter().chain(headers).chain(body).map(|line| without_times(&without_ids(&line))).collect()
}

/// Headers that say nothing about limits.
const PASSING: [&str; 5] = ["date:", "content-length:", "connection:", "server:", "x-envoy-upstream-service-time:"];

/// Redis's answers are shown with remarks behind them.
fn without_remark(line: &str) -> &str {
    if line.contains(") (integer)") || line.contains(") \"") {
        line.split("  #").next().unwrap_or(line).trim_end()
    } else {
        line
    }
}

/// The ids in an answer, in their order: 32 hexadecimal digits each.
pub(crate) fn ids(answer: &str) -> Vec<String> {
    let words = answer.split(|it: char| !it.is_ascii_hexdigit());
    words.filter(|word| word.len() == 32).map(str::to_owned).collect()
}

fn without_ids(line: &str) -> String {
    ids(line).iter().fold(line.to_owned(), |line, id| line.replace(id.as_str(), "ID"))
}

/// What stands before a number that tells how long something takes.
const TIMES: [&str; 9] = [
    "t=",
    "_ms\":",
    "_s\":",
    "again in ",
    "Reset\":\"",
    "retry-after: ",
    "ratelimit-reset: ",
    "retry-after\",\"value\":\"",
    "ratelimit-reset\",\"value\":\"",
];

/// Numbers of four digits or more are times or ports here, and so are those behind such words.
fn without_times(line: &str) -> String {
    let mut lasting = String::new();
    let mut rest = line;
    while let Some(from) = rest.find(|it: char| it.is_ascii_digit()) {
        lasting.push_str(&rest[..from]);
        let long = rest[from..].find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len() - from);
        let number = &rest[from..from + long];
        let digits = number.split('.').next().unwrap_or(number);
        if digits.len() >= 4 || TIMES.iter().any(|word| lasting.ends_with(word)) {
            lasting.push('N');
        } else {
            lasting.push_str(number);
        }
        rest = &rest[from + long..];
    }
    lasting + rest
}

/// A window of an hour ends in thousands of seconds at its beginning and in a few at its end: pages were answered as
/// shown only when they were read early in an hour.
#[test]
fn an_answer_is_alike_at_any_time_of_its_window() {
    let at = |seconds: u32| {
        let json = format!(
            "{{\"durationUntilReset\":\"{seconds}.4s\",\"headers\":[{{\"key\":\"ratelimit-limit\",\"value\":\"3\"}},\
             {{\"key\":\"ratelimit-reset\",\"value\":\"{seconds}\"}},{{\"key\":\"retry-after\",\"value\":\"{seconds}\"}}],\
             \"wait_ms\":{seconds}400,\"retry_after_s\":{seconds}}}"
        );
        let http = format!(
            "HTTP/1.1 429 Too Many Requests\nretry-after: {seconds}\nratelimit-reset: {seconds}\n\
             ratelimit: \"per-path\";r=0;t={seconds}\n\nagain in {seconds} s"
        );
        [lasting(&json), lasting(&http)]
    };
    assert_eq!(at(9), at(3599));
    assert_eq!(at(50), at(2428));
    assert_ne!(lasting("\"ratelimit-limit\",\"value\":\"3\""), lasting("\"ratelimit-limit\",\"value\":\"4\""));
}

//! Normalizes responses for comparison with a page: masks dates, ids and elapsed times.

/// The stable lines of a response. The status line and the body keep their order; headers are sorted, and those
/// that depend on the proxy are dropped.
pub(crate) fn stable_lines(output: &str) -> Vec<String> {
    let output = output.replace('\r', "");
    let lines: Vec<&str> = output.trim_matches('\n').lines().map(str::trim_end).collect();
    let is_http = lines.first().is_some_and(|line| line.starts_with("HTTP/"));
    let head = if is_http { lines.iter().position(|line| line.is_empty()).unwrap_or(lines.len()) } else { 0 };
    let mut headers: Vec<String> = lines[..head].iter().skip(1).map(|line| line.to_lowercase()).collect();
    headers.retain(|line| !IGNORED_HEADERS.iter().any(|name| line.starts_with(name)));
    headers.sort();
    let first = lines[..head].first().map(|line| (*line).to_owned());
    let body = lines[head..].iter().map(|line| strip_remark(line).to_owned());
    first.into_iter().chain(headers).chain(body).map(|line| mask_times(&mask_ids(&line))).collect()
}

/// Headers that are unrelated to limits.
const IGNORED_HEADERS: [&str; 5] =
    ["date:", "content-length:", "connection:", "server:", "x-envoy-upstream-service-time:"];

/// Removes the remarks that pages show behind Redis replies.
fn strip_remark(line: &str) -> &str {
    if line.contains(") (integer)") || line.contains(") \"") {
        line.split("  #").next().unwrap_or(line).trim_end()
    } else {
        line
    }
}

/// Ids in a response, in order: 32 hexadecimal digits each.
pub(crate) fn ids(output: &str) -> Vec<String> {
    let words = output.split(|it: char| !it.is_ascii_hexdigit());
    words.filter(|word| word.len() == 32).map(str::to_owned).collect()
}

fn mask_ids(line: &str) -> String {
    ids(line).iter().fold(line.to_owned(), |line, id| line.replace(id.as_str(), "ID"))
}

/// Text before a number that is a duration.
const TIME_PREFIXES: [&str; 9] = [
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

/// Masks numbers of four or more digits, which are times or ports here, and numbers behind such prefixes.
fn mask_times(line: &str) -> String {
    let mut lasting = String::new();
    let mut rest = line;
    while let Some(from) = rest.find(|it: char| it.is_ascii_digit()) {
        lasting.push_str(&rest[..from]);
        let long = rest[from..].find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(rest.len() - from);
        let number = &rest[from..from + long];
        let digits = number.split('.').next().unwrap_or(number);
        if digits.len() >= 4 || TIME_PREFIXES.iter().any(|word| lasting.ends_with(word)) {
            lasting.push('N');
        } else {
            lasting.push_str(number);
        }
        rest = &rest[from + long..];
    }
    lasting + rest
}

/// Regression: an hourly window ends in thousands of seconds at its start and in a few at its end, so pages
/// matched only early in an hour.
#[test]
fn responses_compare_equal_at_any_time_in_the_window() {
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
        [stable_lines(&json), stable_lines(&http)]
    };
    assert_eq!(at(9), at(3599));
    assert_eq!(at(50), at(2428));
    assert_ne!(
        stable_lines("\"ratelimit-limit\",\"value\":\"3\""),
        stable_lines("\"ratelimit-limit\",\"value\":\"4\"")
    );
}

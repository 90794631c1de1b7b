//! Recursive-descent parser of conditions.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use regex::RegexBuilder;

use super::{Expr, ExprError, MAX_DEPTH, MAX_LENGTH, Relation};
use crate::rule::Attribute;
use crate::rule::attribute::{QuotedExcerpt, is_identifier_byte, normalised};
use crate::rule::quote::{read_quoted, starts_quoted};
use crate::spelling::within_one_edit;

/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 20;

/// Method calls on an attribute's text.
const CALLS: [&str; 4] = ["startsWith", "endsWith", "contains", "matches"];

pub(super) fn parse(text: &str) -> Result<Expr, ExprError> {
    if text.len() > MAX_LENGTH {
        let message = format!("a condition of {} bytes is too long: the maximum is {MAX_LENGTH}", text.len());
        return Err(ExprError { at: 0, len: text.len(), message });
    }
    let mut parser = Parser { text, at: 0, depth: 0 };
    let expr = parser.any()?;
    match parser.remaining() {
        "" => Ok(expr),
        rest => Err(parser.after_operand(rest)),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// Literal on the right-hand side of a comparison.
enum Literal {
    Text(String),
    Number(i64),
    Network(IpNet),
}

impl<'t> Parser<'t> {
    // --- grammar ---

    /// `all || all || ...`
    fn any(&mut self) -> Result<Expr, ExprError> {
        let mut parts = vec![self.all()?];
        while self.take("||") {
            parts.push(self.all()?);
        }
        Ok(single(&mut parts).unwrap_or(Expr::Any(parts)))
    }

    /// `unary && unary && ...`
    fn all(&mut self) -> Result<Expr, ExprError> {
        let mut parts = vec![self.unary()?];
        while self.take("&&") {
            parts.push(self.unary()?);
        }
        Ok(single(&mut parts).unwrap_or(Expr::All(parts)))
    }

    /// `!unary`, `(any)`, or a comparison
    fn unary(&mut self) -> Result<Expr, ExprError> {
        let rest = self.remaining();
        let start = self.at;
        if rest.starts_with("!=") {
            return Err(self.error(start, 2, "an attribute must come before !=".to_owned()));
        }
        if !rest.starts_with(['!', '(']) {
            return self.operand();
        }
        if self.depth == MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} nested parentheses and negations: simplify the condition");
            return Err(self.error(start, 1, message));
        }
        self.depth += 1;
        let expr = if self.take("!") {
            self.negated()?
        } else {
            self.take("(");
            let inner = self.any()?;
            self.close(")", start)?;
            inner
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// Operand of `!`. As in CEL, `!` binds tighter than comparisons, so the ambiguous `!a == 'x'` is rejected.
    fn negated(&mut self) -> Result<Expr, ExprError> {
        let rest = self.remaining();
        let start = self.at;
        let expr = self.unary()?;
        let comparison = match &expr {
            Expr::Not(inner) => matches!(**inner, Expr::OneOf(..) | Expr::InNetwork(..)),
            expr => matches!(expr, Expr::OneOf(..) | Expr::InNetwork(..) | Expr::Number(..)),
        };
        if comparison && !rest.starts_with(['!', '(']) {
            let message = "a comparison after ! needs parentheses: write !(...), or != instead of ==".to_owned();
            return Err(self.error(start, self.at - start, message));
        }
        Ok(Expr::Not(Box::new(expr)))
    }

    /// `true`, `false`, `has(attr)`, `attr.call('text')`, `attr OP value`
    fn operand(&mut self) -> Result<Expr, ExprError> {
        let rest = self.remaining();
        let start = self.at;
        let word = identifier(rest);
        if word.is_empty() {
            return Err(self.not_an_operand(rest));
        }
        self.at += word.len();
        match word {
            "true" => return Ok(Expr::All(Vec::new())),
            "false" => return Ok(Expr::Any(Vec::new())),
            "has" if self.remaining().starts_with('(') => return self.has(),
            _ => {}
        }
        if self.text[self.at..].starts_with('[') {
            let end = self.bracket()?;
            let attribute = self.attribute(start, end)?;
            self.at = end;
            if self.text[self.at..].starts_with('.') {
                self.at += 1;
                let call = identifier(&self.text[self.at..]);
                let at = self.at;
                self.at += call.len();
                return self.call(attribute, call, at);
            }
            return self.comparison(attribute);
        }
        if self.remaining().starts_with('(') {
            let Some((name, call)) = word.rsplit_once('.') else {
                return Err(self.error(start, word.len(), unknown_call(word)));
            };
            let attribute = self.attribute(start, start + name.len())?;
            return self.call(attribute, call, start + name.len() + 1);
        }
        let end = self.at;
        let attribute = self.attribute(start, start + word.len())?;
        self.at = end;
        self.comparison(attribute)
    }

    fn has(&mut self) -> Result<Expr, ExprError> {
        let open = self.at;
        self.take("(");
        let rest = self.remaining();
        let start = self.at;
        let word = identifier(rest);
        if word.is_empty() {
            return Err(self.error_here("expected an attribute, as in has(account)"));
        }
        self.at += word.len();
        let end = if self.text[self.at..].starts_with('[') { self.bracket()? } else { self.at };
        let attribute = self.attribute(start, end)?;
        self.at = end;
        self.close(")", open)?;
        Ok(Expr::Has(attribute))
    }

    /// `('text')` after `attr.call`
    fn call(&mut self, attribute: Attribute, call: &str, at: usize) -> Result<Expr, ExprError> {
        if !CALLS.contains(&call) {
            return Err(self.error(at, call.len(), unknown_call(call)));
        }
        let rest = self.remaining();
        let open = self.at;
        if !rest.starts_with('(') {
            return Err(self.error_here(&format!("expected a string in parentheses, as in .{call}('text')")));
        }
        self.take("(");
        self.remaining();
        let text_at = self.at;
        let text = self.quoted()?;
        let text_len = self.at - text_at;
        self.close(")", open)?;
        Ok(match call {
            "startsWith" => Expr::StartsWith(attribute, text),
            "endsWith" => Expr::EndsWith(attribute, text),
            "contains" => Expr::Contains(attribute, text),
            _ => {
                let pattern = RegexBuilder::new(&text).size_limit(MAX_PATTERN_BYTES).nest_limit(100).build();
                let pattern = pattern.map_err(|error| self.error(text_at, text_len, bad_pattern(&error)))?;
                Expr::Matches(attribute, pattern)
            }
        })
    }

    /// Operator and value that follow an attribute.
    fn comparison(&mut self, attribute: Attribute) -> Result<Expr, ExprError> {
        let rest = self.remaining();
        let start = self.at;
        if let Some((wrong, message)) = WRONG_OPERATORS.into_iter().find(|(wrong, _)| rest.starts_with(wrong)) {
            return Err(self.error(start, wrong.len(), message.to_owned()));
        }
        if self.take("==") {
            return self.equal(attribute);
        }
        if rest.starts_with('=') {
            return Err(self.error(start, 1, "'=' is not a comparison: use ==".to_owned()));
        }
        if self.take("!=") {
            return self.equal(attribute).map(|expr| Expr::Not(Box::new(expr)));
        }
        for (operator, relation) in
            [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("<", Relation::Less), (">", Relation::Greater)]
        {
            if self.take(operator) {
                return self.bound(attribute, relation);
            }
        }
        match identifier(rest) {
            "in" => {
                self.at += 2;
                self.member(attribute)
            }
            "not" => Err(self.error(start, 3, format!("'not' is written with !: write !({attribute} in [...])"))),
            word @ ("startsWith" | "endsWith" | "contains" | "matches") => {
                Err(self.error(start, word.len(), format!("write {attribute}.{word}('text')")))
            }
            _ => Err(self.error_here(&format!(
                "expected ==, !=, in, <, <=, > or >= after {attribute}; to test presence, write has({attribute})"
            ))),
        }
    }

    /// The value after `==` or `!=`
    fn equal(&mut self, attribute: Attribute) -> Result<Expr, ExprError> {
        self.remaining();
        let start = self.at;
        let item = self.literal()?;
        if let Literal::Network(network) = item
            && network.prefix_len() < network.max_prefix_len()
        {
            let message = format!("use in to compare with a network: write {attribute} in {network}");
            return Err(self.error(start, self.at - start, message));
        }
        self.one_of(attribute, vec![(item, start, self.at - start)])
    }

    /// The list or network after `in`
    fn member(&mut self, attribute: Attribute) -> Result<Expr, ExprError> {
        let rest = self.remaining();
        let open = self.at;
        if !self.take("[") {
            if starts_quoted(rest) && attribute != Attribute::ClientIp {
                return Err(self.error_here(&format!("in takes a list: write {attribute} in ['a', 'b'], or use ==")));
            }
            let item = self.literal()?;
            if matches!(item, Literal::Number(_)) {
                let message = format!("in takes a list: write {attribute} in [1, 2], or use ==");
                return Err(self.error(open, self.at - open, message));
            }
            return self.one_of(attribute, vec![(item, open, self.at - open)]);
        }
        let mut items = Vec::new();
        loop {
            if self.remaining().starts_with(']') && items.is_empty() {
                return Err(self.error_here("the list is empty: add at least one value"));
            }
            let start = self.at;
            let item = self.literal()?;
            items.push((item, start, self.at - start));
            if !self.take(",") {
                break;
            }
            if self.remaining().starts_with(']') {
                break;
            }
        }
        self.close("]", open)?;
        self.one_of(attribute, items)
    }

    /// Builds a membership test: by address if any item is one, by text otherwise.
    fn one_of(&self, attribute: Attribute, items: Vec<(Literal, usize, usize)>) -> Result<Expr, ExprError> {
        let addresses =
            attribute == Attribute::ClientIp || items.iter().any(|(item, ..)| matches!(item, Literal::Network(_)));
        if addresses {
            let networks = items.into_iter().map(|(item, at, len)| match item {
                Literal::Network(network) => Ok(network),
                Literal::Text(text) => network(&text).ok_or_else(|| self.error(at, len, not_a_network(&text))),
                Literal::Number(number) => Err(self.error(at, len, not_a_network(&number.to_string()))),
            });
            return Ok(Expr::InNetwork(attribute, networks.collect::<Result<_, _>>()?));
        }
        let mut texts = Vec::with_capacity(items.len());
        for (item, at, len) in items {
            match item {
                Literal::Text(text) if text.is_empty() => {
                    let message =
                        format!("an empty attribute counts as absent: write has({attribute}) or !has({attribute})");
                    return Err(self.error(at, len, message));
                }
                Literal::Text(text) => texts.push(text),
                Literal::Number(number) => texts.push(number.to_string()),
                Literal::Network(_) => {}
            }
        }
        Ok(Expr::OneOf(attribute, texts))
    }

    /// The number after `<`, `<=`, `>` or `>=`
    fn bound(&mut self, attribute: Attribute, relation: Relation) -> Result<Expr, ExprError> {
        self.remaining();
        let start = self.at;
        match self.literal()? {
            Literal::Number(bound) => Ok(Expr::Number(attribute, relation, bound)),
            _ => {
                let message = format!("{relation} compares whole numbers: write one without quotes, such as 100");
                Err(self.error(start, self.at - start, message))
            }
        }
    }

    /// A text in quotes, a whole number, an address or a network
    fn literal(&mut self) -> Result<Literal, ExprError> {
        let rest = self.remaining();
        let start = self.at;
        if starts_quoted(rest) {
            return self.quoted().map(Literal::Text);
        }
        let end = rest.bytes().position(|b| !(is_identifier_byte(b) || matches!(b, b':' | b'/'))).unwrap_or(rest.len());
        let word = &rest[..end];
        if word.is_empty() {
            return Err(self.error_here("expected a quoted string, a whole number, an address or a network"));
        }
        self.at += word.len();
        if let Ok(number) = word.parse() {
            return Ok(Literal::Number(number));
        }
        if let Some(network) = network(word) {
            return Ok(Literal::Network(network));
        }
        let digits = word.strip_prefix('-').unwrap_or(word);
        let message = if digits.bytes().all(|b| b.is_ascii_digit()) && !digits.is_empty() {
            format!("{} is too large: the maximum is {}", QuotedExcerpt(word), i64::MAX)
        } else if digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') && digits.matches('.').count() == 1 {
            format!(
                "{} is not a whole number: remove the fraction, or quote it to compare strings",
                QuotedExcerpt(word)
            )
        } else if word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains([':', '/']) {
            format!("a string must be quoted: write '{word}'")
        } else {
            not_a_network(word)
        };
        Err(self.error(start, word.len(), message))
    }

    // --- tokens ---

    /// Remaining text after spaces.
    fn remaining(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.remaining().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn close(&mut self, token: &str, open: usize) -> Result<(), ExprError> {
        if self.take(token) {
            return Ok(());
        }
        match self.remaining() {
            "" => Err(self.error(open, 1, format!("unclosed: add {token}"))),
            rest if token == ")" => Err(self.after_operand(rest)),
            _ => Err(self.error_here(&format!("expected a comma or {token}"))),
        }
    }

    fn quoted(&mut self) -> Result<String, ExprError> {
        let rest = &self.text[self.at..];
        match read_quoted(rest) {
            Ok((text, consumed)) => {
                self.at += consumed;
                Ok(text)
            }
            Err(fault) => Err(self.error(self.at + fault.at, fault.len, fault.message)),
        }
    }

    /// The end of the `['name']` that starts here.
    fn bracket(&mut self) -> Result<usize, ExprError> {
        let open = self.at;
        self.take("[");
        self.remaining();
        self.quoted()?;
        self.close("]", open)?;
        Ok(self.at)
    }

    fn attribute(&self, start: usize, end: usize) -> Result<Attribute, ExprError> {
        let text = &self.text[start..end];
        text.parse().map_err(|error: crate::rule::AttributeError| self.error(start, text.len(), error.message))
    }

    // --- errors ---

    fn error(&self, at: usize, len: usize, message: String) -> ExprError {
        ExprError { at, len, message }
    }

    fn error_here(&self, message: &str) -> ExprError {
        match self.text[self.at..].chars().next() {
            Some(c) => self.error(self.at, c.len_utf8(), message.to_owned()),
            None => self.error(self.at, 0, format!("unexpected end of the condition: {message}")),
        }
    }

    /// Error at the start of an operand.
    fn not_an_operand(&self, rest: &str) -> ExprError {
        if starts_quoted(rest) || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.error_here("put the attribute first: write account == 'alice'");
        }
        self.error_here("expected a condition, such as account == 'alice'")
    }

    /// Error at the place of an operator or the end.
    fn after_operand(&self, rest: &str) -> ExprError {
        let word = identifier(rest);
        let (len, message) = match (word, rest.as_bytes()) {
            ("and" | "AND", _) => (3, "use && for 'and'".to_owned()),
            ("or" | "OR", _) => (2, "use || for 'or'".to_owned()),
            (_, [b'&', ..]) => (1, "a single & is not an operator: use &&".to_owned()),
            (_, [b'|', ..]) => (1, "a single | is not an operator: use ||".to_owned()),
            (_, [b')', ..]) => (1, "unmatched closing bracket: remove it".to_owned()),
            _ => return self.error_here("expected && or || or the end of the condition"),
        };
        self.error(self.at, len, message)
    }
}

/// Operators of other languages, with the replacement. Longer ones first.
const WRONG_OPERATORS: [(&str, &str); 7] = [
    ("===", "'===' is not an operator: use =="),
    ("!==", "'!==' is not an operator: use !="),
    ("=~", "'=~' is not an operator: use .matches('pattern')"),
    ("!~", "'!~' is not an operator: use !attribute.matches('pattern')"),
    ("=>", "'=>' is not an operator: use >="),
    ("=<", "'=<' is not an operator: use <="),
    ("<>", "'<>' is not an operator: use !="),
];

/// The single element of a list of one.
fn single(parts: &mut Vec<Expr>) -> Option<Expr> {
    if parts.len() == 1 { parts.pop() } else { None }
}

/// Identifier at the start of a text; empty if there is none.
fn identifier(text: &str) -> &str {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return "";
    }
    let end = text.bytes().position(|b| !is_identifier_byte(b)).unwrap_or(text.len());
    &text[..end]
}

/// Parses a network, or an address as a network of one. Bits beyond the prefix are dropped; IPv4-mapped IPv6
/// becomes IPv4.
fn network(text: &str) -> Option<IpNet> {
    let network = match text.parse::<IpNet>() {
        Ok(network) => network,
        Err(_) => IpNet::from(text.parse::<IpAddr>().ok()?),
    };
    let network = match network {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => v6
            .addr()
            .to_ipv4_mapped()
            .and_then(|v4| Ipv4Net::new(v4, v6.prefix_len() - 96).ok())
            .map_or(network, IpNet::V4),
        _ => network,
    };
    Some(network.trunc())
}

fn not_a_network(text: &str) -> String {
    format!("{} is neither address nor network: write 10.1.2.3, 10.1.0.0/16 or 2001:db8::/32", QuotedExcerpt(text))
}

fn unknown_call(call: &str) -> String {
    let near = |known: &&str| within_one_edit(&normalised(call), &normalised(known));
    match CALLS.into_iter().find(near) {
        Some(known) => format!("unknown function '{call}': did you mean {known}?"),
        None => format!("unknown function '{call}': available are startsWith, endsWith, contains, matches and has"),
    }
}

fn bad_pattern(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            "the pattern needs too much memory: repeat less, such as {1,10} instead of {1,1000}".to_owned()
        }
        // The regex crate's message has several lines; the last one states the problem.
        error => {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
            if reason.starts_with("Unicode") {
                return "unsupported character class in the pattern: list the characters, such as [0-9A-Za-z_]"
                    .to_owned();
            }
            format!("invalid pattern: {reason}")
        }
    }
}

//! Parser for the arguments of the `#[limit]` attribute.

use std::time::Duration;

use proc_macro2::{Ident, Span};
use sluicegate_engine::limit::parse;
use sluicegate_engine::{Limit, LimitError, Limiter};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprLit, Lit, LitStr, Path, Result, Token, parenthesized, token};

use crate::attributes::RuleAttributes;
use crate::errors::{parse_positive, parse_text, quoted_list, unknown};
use crate::limit_syntax;
use crate::once::SetOnce;

/// Default maximum number of keys.
const DEFAULT_MAX_KEYS: usize = 1 << 16;

/// Maximum number of keys of a table.
const MAX_KEYS: u64 = 1 << 32;

const OPTIONS: [&str; 11] =
    ["key", "max_keys", "cost", "wait", "max_waiting", "on_limit", "limiter", "rule", "sluice", "overload", "crate"];

/// Parsed arguments of the attribute. Every combination that passes the check is valid.
#[derive(Default)]
pub(crate) struct Arguments {
    limits: Vec<Limit>,
    pub(crate) key: SetOnce<Expr>,
    max_keys: SetOnce<u64>,
    pub(crate) cost: SetOnce<Expr>,
    wait: SetOnce<Duration>,
    max_waiting: SetOnce<u64>,
    pub(crate) on_limit: SetOnce<Path>,
    pub(crate) limiter: SetOnce<Expr>,
    pub(crate) rule: SetOnce<LitStr>,
    pub(crate) sluice: SetOnce<Expr>,
    pub(crate) overload: SetOnce<Expr>,
    attributes: SetOnce<RuleAttributes>,
    pub(crate) crate_path: SetOnce<Path>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self::default();
        let mut errors: Option<Error> = None;
        let mut collect = |result: Result<()>| match (result, &mut errors) {
            (Ok(()), _) => {}
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), none) => *none = Some(error),
        };
        while !input.is_empty() {
            // A syntax error ends parsing; other errors are collected.
            collect(arguments.parse_one(input)?);
            if input.is_empty() {
                break;
            }
            input
                .parse::<Token![,]>()
                .map_err(|error| Error::new(error.span(), "expected a comma between arguments"))?;
        }
        match errors {
            Some(errors) => Err(errors),
            None => arguments.check().map(|()| arguments),
        }
    }
}

impl Arguments {
    /// Parses one limit or option. The outer result is the syntax error, the inner one any other error.
    fn parse_one(&mut self, input: ParseStream<'_>) -> Result<Result<()>> {
        if input.peek(LitStr) {
            let limit = limit_syntax::parse_short(&input.parse()?);
            return Ok(limit.map(|limit| self.limits.push(limit)));
        }
        if input.peek(syn::Lit) {
            let written: Lit = input.parse()?;
            return Ok(Err(Error::new(written.span(), "a limit is a string with a count and a period: `\"10/s\"`")));
        }
        let name = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), "expected a limit such as `\"10/s\"`, or an option such as `key = account`")
        })?;
        if input.peek(token::Paren) {
            let content;
            parenthesized!(content in input);
            return Ok(self.parse_parenthesized(name, &content));
        }
        if !input.peek(Token![=]) {
            return Err(missing_value(&name));
        }
        input.parse::<Token![=]>()?;
        self.parse_option(name, input)
    }

    fn parse_parenthesized(&mut self, name: Ident, content: ParseStream<'_>) -> Result<()> {
        let read = if name == "with" {
            content.parse().and_then(|with| self.attributes.set(name, with))
        } else {
            limit_syntax::parse_limit(&name, content).map(|limit| self.limits.push(limit))
        };
        // Otherwise the remaining tokens in the parentheses would be reported as another error.
        content.parse::<proc_macro2::TokenStream>()?;
        read
    }

    fn parse_option(&mut self, name: Ident, input: ParseStream<'_>) -> Result<Result<()>> {
        let literal = |example: &str| {
            input.parse::<Lit>().map_err(|error| Error::new(error.span(), format!("write `{name} = {example}`")))
        };
        Ok(match name.to_string().as_str() {
            "key" => self.key.set(name, input.parse()?),
            "cost" => {
                let cost = input.parse()?;
                match is_zero(&cost) {
                    true => Err(Error::new_spanned(cost, "`cost` is zero: no call would ever be limited")),
                    false => self.cost.set(name, cost),
                }
            }
            "limiter" => self.limiter.set(name, input.parse()?),
            "sluice" => self.sluice.set(name, input.parse()?),
            "overload" => self.overload.set(name, input.parse()?),
            "on_limit" => {
                let path: Expr = input.parse()?;
                match path {
                    Expr::Path(path) if path.qself.is_none() => self.on_limit.set(name, path.path),
                    other => Err(Error::new_spanned(
                        other,
                        "`on_limit` takes the path of a function with the same arguments: \
                         write `on_limit = fallback` or `on_limit = Self::fallback`",
                    )),
                }
            }
            "crate" => self.crate_path.set(name, input.parse()?),
            "max_keys" => {
                let keys = parse_positive(&literal("100_000")?, "max_keys", 100_000, MAX_KEYS);
                keys.and_then(|keys| self.max_keys.set(name, keys))
            }
            "max_waiting" => {
                let callers = parse_positive(&literal("100")?, "max_waiting", 100, u32::MAX.into());
                callers.and_then(|callers| self.max_waiting.set(name, callers))
            }
            "wait" => parse_wait(&literal("\"500ms\"")?).and_then(|wait| self.wait.set(name, wait)),
            "rule" => parse_rule(&literal("\"create-order\"")?).and_then(|rule| self.rule.set(name, rule)),
            other => {
                input.parse::<Expr>()?;
                Err(match limit_syntax::algorithm_names().contains(&other) || other == "with" {
                    true => Error::new(name.span(), format!("`{other}` takes parentheses: write `{other}(...)`")),
                    false => unknown("option", &name, &OPTIONS),
                })
            }
        })
    }

    /// Rejects options that cannot be combined.
    fn check(&self) -> Result<()> {
        let wrong = |given: Option<Span>, if_so: bool, message: &str| match given {
            Some(span) if if_so => Err(Error::new(span, message)),
            _ => Ok(()),
        };
        let (own, ruled, keyed) = (self.limiter.is_set(), self.rule.is_set(), self.key.is_set());
        let limited = !self.limits.is_empty();
        let waits = !self.max_wait().is_zero();
        wrong(
            self.limiter.span(),
            limited,
            "`limiter` and limits cannot be combined: remove the limits, or remove `limiter`",
        )?;
        wrong(self.rule.span(), own, "`rule` and `limiter` cannot be combined: keep one of them")?;
        wrong(self.max_keys.span(), own, "`max_keys` is a setting of the limiter itself: remove `max_keys`")?;
        wrong(self.max_waiting.span(), own, "`max_waiting` is a setting of the limiter itself: remove `max_waiting`")?;
        wrong(self.max_keys.span(), !keyed, "`max_keys` needs a key: add `key = ...`, or remove `max_keys`")?;
        wrong(
            self.max_waiting.span(),
            !waits,
            "`max_waiting` needs a wait: add `wait = \"500ms\"`, or remove `max_waiting`",
        )?;
        wrong(self.sluice.span(), !ruled, "`sluice` needs a rule: add `rule = \"...\"`")?;
        wrong(self.overload.span(), !ruled, "`overload` needs a rule: add `rule = \"...\"`")?;
        wrong(self.attributes.span(), !ruled, "`with` needs a rule: add `rule = \"...\"`, or use `key = ...`")?;
        let together = limited.then(|| Limiter::builder().limits(self.limits.iter().copied()).build());
        together.transpose().map_err(|error| Error::new(Span::call_site(), error))?;
        Ok(())
    }

    /// The limits; 10 per second by default.
    pub(crate) fn limits(&self) -> Result<Vec<Limit>> {
        if !self.limits.is_empty() {
            return Ok(self.limits.clone());
        }
        let ten_per_second = Limit::sliding_window(10, Duration::from_secs(1), 10);
        ten_per_second.map(|limit| vec![limit]).map_err(|error: LimitError| Error::new(Span::call_site(), error))
    }

    /// Maximum time that a call waits. Without `wait`, the longest time in a queue that is part of a limit, since
    /// queueing is the purpose of such a limit.
    pub(crate) fn max_wait(&self) -> Duration {
        let queues = || self.limits.iter().filter(|limit| limit.has_queue());
        let max_queue_time = || queues().filter_map(Limit::window).max().unwrap_or_default();
        self.wait.get().copied().unwrap_or_else(max_queue_time)
    }

    /// True if a call holds permits until it ends.
    pub(crate) fn holds_permits(&self) -> bool {
        self.limits.iter().any(Limit::is_concurrency)
    }

    pub(crate) fn max_keys(&self) -> usize {
        self.max_keys.get().map_or(DEFAULT_MAX_KEYS, |keys| usize::try_from(*keys).unwrap_or(usize::MAX))
    }

    pub(crate) fn max_waiting(&self) -> Option<usize> {
        self.max_waiting.get().map(|callers| usize::try_from(*callers).unwrap_or(usize::MAX))
    }

    pub(crate) fn attributes(&self) -> &[(sluicegate_engine::rule::Attribute, Expr)] {
        self.attributes.get().map_or(&[], |with| &with.0)
    }
}

/// Error for an option without a value.
fn missing_value(name: &Ident) -> Error {
    let known = name.to_string();
    let message = match OPTIONS.contains(&known.as_str()) {
        true => format!("missing value of `{name}`: write `{name} = ...`"),
        false if limit_syntax::algorithm_names().contains(&known.as_str()) || known == "with" => {
            format!("`{name}` takes parentheses: write `{name}(...)`")
        }
        false => format!(
            "`{name}` is neither a limit nor an option: a limit is a string such as `\"10/s\"`, the options are {}",
            quoted_list(&OPTIONS)
        ),
    };
    Error::new(name.span(), message)
}

/// True if the expression is the literal zero.
fn is_zero(expression: &Expr) -> bool {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse::<u128>().is_ok_and(|it| it == 0),
        _ => false,
    }
}

fn parse_wait(literal: &Lit) -> Result<Duration> {
    let wait =
        parse::duration(&parse_text(literal, "wait", "500ms")?).map_err(|error| Error::new(literal.span(), error))?;
    match wait.is_zero() {
        true => Err(Error::new(literal.span(), "`wait` is zero: remove it to refuse calls immediately")),
        false => Ok(wait),
    }
}

fn parse_rule(literal: &Lit) -> Result<LitStr> {
    match literal {
        Lit::Str(name) if name.value().is_empty() => {
            Err(Error::new(name.span(), "`rule` is empty: write the name of a rule, such as `rule = \"create-order\"`"))
        }
        Lit::Str(name) => Ok(name.clone()),
        other => Err(Error::new(other.span(), "`rule` takes the name of a rule: write `rule = \"create-order\"`")),
    }
}

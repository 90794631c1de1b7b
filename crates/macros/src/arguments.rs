//! What stands in the brackets of the attribute.

use std::time::Duration;

use proc_macro2::{Ident, Span};
use sluicegate_engine::limit::parse;
use sluicegate_engine::{Limit, LimitError, Limiter};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprLit, Lit, LitStr, Path, Result, Token, parenthesized, token};

use crate::given::Given;
use crate::long_form;
use crate::with::With;
use crate::written::{listed, positive, text, unknown};

/// Keys remembered unless told otherwise.
const DEFAULT_KEYS: usize = 1 << 16;

/// The most keys a table can have.
const MOST_KEYS: u64 = 1 << 32;

const OPTIONS: [&str; 11] =
    ["key", "max_keys", "cost", "wait", "max_waiting", "on_limit", "limiter", "rule", "sluice", "strain", "crate"];

/// Everything the attribute was told. Every combination of these has a meaning.
#[derive(Default)]
pub(crate) struct Arguments {
    limits: Vec<Limit>,
    pub(crate) key: Given<Expr>,
    max_keys: Given<u64>,
    pub(crate) cost: Given<Expr>,
    wait: Given<Duration>,
    max_waiting: Given<u64>,
    pub(crate) on_limit: Given<Path>,
    pub(crate) limiter: Given<Expr>,
    pub(crate) rule: Given<LitStr>,
    pub(crate) sluice: Given<Expr>,
    pub(crate) strain: Given<Expr>,
    with: Given<With>,
    pub(crate) home: Given<Path>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut arguments = Self::default();
        let mut mistakes: Option<Error> = None;
        let mut note = |result: Result<()>| match (result, &mut mistakes) {
            (Ok(()), _) => {}
            (Err(error), Some(mistakes)) => mistakes.combine(error),
            (Err(error), none) => *none = Some(error),
        };
        while !input.is_empty() {
            // What cannot be read ends it; what can be read and is wrong is collected.
            note(arguments.one(input)?);
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>().map_err(|error| Error::new(error.span(), "a comma must come between these"))?;
        }
        match mistakes {
            Some(mistakes) => Err(mistakes),
            None => arguments.check().map(|()| arguments),
        }
    }
}

impl Arguments {
    /// Reads one limit or option. The outer result says whether it could be read, the inner one whether it
    /// is right.
    fn one(&mut self, input: ParseStream<'_>) -> Result<Result<()>> {
        if input.peek(LitStr) {
            let limit = long_form::short(&input.parse()?);
            return Ok(limit.map(|limit| self.limits.push(limit)));
        }
        if input.peek(syn::Lit) {
            let written: Lit = input.parse()?;
            return Ok(Err(Error::new(written.span(), "a limit is a text that says per what: `\"10/s\"`")));
        }
        let name = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), "expected a limit such as `\"10/s\"`, or an option such as `key = account`")
        })?;
        if input.peek(token::Paren) {
            let content;
            parenthesized!(content in input);
            return Ok(self.in_brackets(name, &content));
        }
        if !input.peek(Token![=]) {
            return Err(without_value(&name));
        }
        input.parse::<Token![=]>()?;
        self.option(name, input)
    }

    fn in_brackets(&mut self, name: Ident, content: ParseStream<'_>) -> Result<()> {
        let read = if name == "with" {
            content.parse().and_then(|with| self.with.set(name, with))
        } else {
            long_form::limit(&name, content).map(|limit| self.limits.push(limit))
        };
        // The rest of the brackets would be reported as a mistake of its own.
        content.parse::<proc_macro2::TokenStream>()?;
        read
    }

    fn option(&mut self, name: Ident, input: ParseStream<'_>) -> Result<Result<()>> {
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
            "strain" => self.strain.set(name, input.parse()?),
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
            "crate" => self.home.set(name, input.parse()?),
            "max_keys" => {
                let keys = positive(&literal("100_000")?, "max_keys", 100_000, MOST_KEYS);
                keys.and_then(|keys| self.max_keys.set(name, keys))
            }
            "max_waiting" => {
                let callers = positive(&literal("100")?, "max_waiting", 100, u32::MAX.into());
                callers.and_then(|callers| self.max_waiting.set(name, callers))
            }
            "wait" => wait(&literal("\"500ms\"")?).and_then(|wait| self.wait.set(name, wait)),
            "rule" => rule(&literal("\"create-order\"")?).and_then(|rule| self.rule.set(name, rule)),
            other => {
                input.parse::<Expr>()?;
                Err(match long_form::names().contains(&other) || other == "with" {
                    true => Error::new(name.span(), format!("`{other}` takes brackets: write `{other}(...)`")),
                    false => unknown("option", &name, &OPTIONS),
                })
            }
        })
    }

    /// Refuses what does not go together.
    fn check(&self) -> Result<()> {
        let wrong = |given: Option<Span>, if_so: bool, message: &str| match given {
            Some(span) if if_so => Err(Error::new(span, message)),
            _ => Ok(()),
        };
        let (own, ruled, keyed) = (self.limiter.is_given(), self.rule.is_given(), self.key.is_given());
        let limited = !self.limits.is_empty();
        let waits = !self.longest_wait().is_zero();
        wrong(
            self.limiter.span(),
            limited,
            "`limiter` has limits of its own: remove the ones beside it, or remove `limiter`",
        )?;
        wrong(self.rule.span(), own, "`rule` and `limiter` are two ways to decide: keep one of them")?;
        wrong(self.max_keys.span(), own, "`limiter` knows how many keys it remembers: remove `max_keys`")?;
        wrong(self.max_waiting.span(), own, "`limiter` knows how many may wait: remove `max_waiting`")?;
        wrong(self.max_keys.span(), !keyed, "there are no keys to remember: add `key = ...`, or remove `max_keys`")?;
        wrong(self.max_waiting.span(), !waits, "nobody waits here: add `wait = \"500ms\"`, or remove `max_waiting`")?;
        wrong(self.sluice.span(), !ruled, "`sluice` is where a rule is looked up: add `rule = \"...\"`")?;
        wrong(self.strain.span(), !ruled, "`strain` is what a rule learns from: add `rule = \"...\"`")?;
        wrong(self.with.span(), !ruled, "`with` is for a rule: add `rule = \"...\"`, or use `key = ...`")?;
        let together = limited.then(|| Limiter::builder().limits(self.limits.iter().copied()).build());
        together.transpose().map_err(|error| Error::new(Span::call_site(), error))?;
        Ok(())
    }

    /// The limits: 10 per second unless told otherwise.
    pub(crate) fn limits(&self) -> Result<Vec<Limit>> {
        if !self.limits.is_empty() {
            return Ok(self.limits.clone());
        }
        let ten_per_second = Limit::sliding_window(10, Duration::from_secs(1), 10);
        ten_per_second.map(|limit| vec![limit]).map_err(|error: LimitError| Error::new(Span::call_site(), error))
    }

    /// How long a call waits at most. Without `wait` as long as the line of a leaky bucket can take, since
    /// waiting is what that is for.
    pub(crate) fn longest_wait(&self) -> Duration {
        let paced = |limit: &Limit| match limit {
            Limit::LeakyBucket(_) => limit.window(),
            _ => None,
        };
        let in_line = || self.limits.iter().filter_map(paced).max().unwrap_or_default();
        self.wait.get().copied().unwrap_or_else(in_line)
    }

    /// Whether a call holds permits until it ends.
    pub(crate) fn holds_permits(&self) -> bool {
        self.limits.iter().any(Limit::is_concurrency)
    }

    pub(crate) fn max_keys(&self) -> usize {
        self.max_keys.get().map_or(DEFAULT_KEYS, |keys| usize::try_from(*keys).unwrap_or(usize::MAX))
    }

    pub(crate) fn max_waiting(&self) -> Option<usize> {
        self.max_waiting.get().map(|callers| usize::try_from(*callers).unwrap_or(usize::MAX))
    }

    pub(crate) fn with(&self) -> &[(sluicegate_engine::rule::Attribute, Expr)] {
        self.with.get().map_or(&[], |with| &with.0)
    }
}

/// A name with nothing after it.
fn without_value(name: &Ident) -> Error {
    let known = name.to_string();
    let message = match OPTIONS.contains(&known.as_str()) {
        true => format!("`{name}` lacks its value: write `{name} = ...`"),
        false if long_form::names().contains(&known.as_str()) || known == "with" => {
            format!("`{name}` takes brackets: write `{name}(...)`")
        }
        false => format!(
            "`{name}` is neither a limit nor an option: a limit is a text such as `\"10/s\"`, the options are {}",
            listed(&OPTIONS)
        ),
    };
    Error::new(name.span(), message)
}

/// Whether an expression is nothing but the number zero.
fn is_zero(expression: &Expr) -> bool {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse::<u128>().is_ok_and(|it| it == 0),
        _ => false,
    }
}

fn wait(literal: &Lit) -> Result<Duration> {
    let wait = parse::duration(&text(literal, "wait", "500ms")?).map_err(|error| Error::new(literal.span(), error))?;
    match wait.is_zero() {
        true => Err(Error::new(literal.span(), "`wait` is zero: leave it out, and nobody waits")),
        false => Ok(wait),
    }
}

fn rule(literal: &Lit) -> Result<LitStr> {
    match literal {
        Lit::Str(name) if name.value().is_empty() => {
            Err(Error::new(name.span(), "`rule` is empty: write the name of a rule, such as `rule = \"create-order\"`"))
        }
        Lit::Str(name) => Ok(name.clone()),
        other => Err(Error::new(other.span(), "`rule` takes the name of a rule: write `rule = \"create-order\"`")),
    }
}

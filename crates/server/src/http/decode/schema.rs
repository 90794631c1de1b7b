//! JSON schemas of request bodies, from the table of fields.

use std::time::Duration;

use serde_json::{Map, Value, json};
use sluicegate_config::settings::Server;
use sluicegate_engine::limit::parse::HumanDuration;

use super::body_kind::CHECK_FIELDS;
use super::request::{DEFAULT_TTL, MAX_TTL, MAX_WAIT, MIN_TTL};
use super::string_map::MAX_ENTRIES;
use super::{BodyField, BodyKind};

/// Text without control characters other than tabs.
const TEXT_PATTERN: &str = r"^[^\u0000-\u0008\u000a-\u001f\u007f]*$";
/// A path: text without a query and a fragment.
const PATH_PATTERN: &str = r"^[^\u0000-\u0008\u000a-\u001f\u007f?#]*$";
/// The name of an attribute that rules use.
const ATTRIBUTE_PATTERN: &str = "^[A-Za-z][A-Za-z0-9_.-]*$";
/// The id of a reservation or permit.
pub(in crate::http) const ID_PATTERN: &str = "^[0-9a-f]{32}$";

impl BodyKind {
    /// Name and schema of the body. That of [`BodyKind::Check`] is the list; a single check is a list item.
    pub(in crate::http) fn schema(self) -> (&'static str, Value) {
        let (name, description) = match self {
            Self::Check => ("Checks", "Several checks in one call."),
            Self::ListItem => ("Check", "A request to decide. All fields are optional."),
            Self::Reserve => ("Reserve", "A check whose `cost` is an estimate."),
            Self::Settle => ("Settle", "The end of a reservation: `actual` or `cancel`."),
            Self::Acquire => ("Acquire", "A check whose permits are held."),
            Self::Renew => ("Renew", "The new time to live of a permit."),
        };
        let fields = self.fields().filter(|field| self != Self::Check || !CHECK_FIELDS.contains(field));
        let mut properties: Map<String, Value> =
            fields.map(|field| (field.name().to_owned(), field.schema())).collect();
        if self == Self::Renew {
            let ttl = BodyField::Ttl.name();
            let description = format!("{} Default: the previous time to live.", ttl_description());
            properties[ttl]["description"] = description.into();
            properties.get_mut(ttl).and_then(Value::as_object_mut).and_then(|schema| schema.remove("default"));
        }
        let mut schema = json!({
            "type": "object",
            "description": description,
            "additionalProperties": false,
            "properties": properties,
        });
        match self {
            Self::Check => schema["required"] = json!(["checks"]),
            Self::Settle => {
                schema["required"] = json!(["reservation"]);
                schema["oneOf"] = json!([
                    { "required": ["actual"], "properties": { "cancel": { "const": false } } },
                    {
                        "required": ["cancel"],
                        "properties": { "cancel": { "const": true } },
                        "not": { "required": ["actual"] },
                    },
                ]);
            }
            Self::ListItem | Self::Reserve | Self::Acquire | Self::Renew => {}
        }
        (name, schema)
    }
}

impl BodyField {
    fn schema(self) -> Value {
        let text = json!({ "type": "string", "pattern": TEXT_PATTERN });
        let number = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
        let (description, mut schema) = match self {
            Self::Rule => {
                let description =
                    "Decide only by the rule of this name, regardless of its `match`. Default: all matching rules.";
                (description, with(text, "minLength", json!(1)))
            }
            Self::Direction => (
                "Direction of the request: received (`inbound`) or sent (`outbound`).",
                json!({ "type": "string", "enum": ["inbound", "outbound"], "default": "inbound" }),
            ),
            Self::Service => ("The service that is called.", text),
            Self::Method => ("The method, such as GET.", text),
            Self::Host => ("The host of the request.", text),
            Self::Path => (
                "The path, without the query. It is normalized: `//a/./b` becomes `/a/b`.",
                json!({ "type": "string", "pattern": PATH_PATTERN }),
            ),
            Self::ClientIp => {
                let formats = ["ipv4", "ipv6"].map(|format| json!({ "type": "string", "format": format }));
                ("The IP address of the client.", json!({ "anyOf": formats }))
            }
            Self::Headers => ("Headers. Names are case-insensitive.", string_map(text)),
            Self::Query => ("Query parameters, decoded.", string_map(text)),
            Self::Cookies => ("Cookies, decoded.", string_map(text)),
            Self::Attributes => {
                let schema = string_map(with(text, "minLength", json!(1)));
                let description = "Other attributes that rules use, such as `account`. Empty values are rejected, \
                    because rules would treat them as absent.";
                (description, with(schema, "propertyNames", json!({ "pattern": ATTRIBUTE_PATTERN })))
            }
            Self::Cost => (
                "The cost of the request, before rules multiply it. 0 reads the limits and consumes nothing.",
                with(number, "default", json!(1)),
            ),
            Self::Checks => {
                let schema =
                    json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/components/schemas/Check" } });
                let max_checks = Server::default().max_checks;
                return described(&format!("At most `max_checks` items, {max_checks} by default."), schema);
            }
            Self::AllOrNothing => (
                "Decides the checks together, in order. If one is refused, the checks before it are refunded and the \
                 rest is not checked.",
                json!({ "type": "boolean", "default": false }),
            ),
            Self::Ttl => {
                let default = HumanDuration(DEFAULT_TTL).to_string();
                return described(&ttl_description(), with(duration(MIN_TTL, MAX_TTL), "default", json!(default)));
            }
            Self::Wait => {
                let max = HumanDuration(MAX_WAIT);
                let description = format!(
                    "Maximum wait in the queue of the rule: milliseconds, or a duration such as \"2s\". Up to {max}."
                );
                return described(&description, with(duration(Duration::ZERO, MAX_WAIT), "default", json!(0)));
            }
            Self::Reservation => {
                ("The id of the reservation.", json!({ "type": "string", "pattern": ID_PATTERN, "minLength": 1 }))
            }
            Self::Actual => ("The actual cost, in the unit of the `cost` of the check.", number),
            Self::Cancel => (
                "True if the work was not done: everything is refunded.",
                json!({ "type": "boolean", "default": false }),
            ),
        };
        schema["description"] = description.into();
        schema
    }
}

fn ttl_description() -> String {
    let (min, max) = (HumanDuration(MIN_TTL), HumanDuration(MAX_TTL));
    format!("Time to live: milliseconds, or a duration such as \"30s\". From {min} to {max}.")
}

fn described(description: &str, schema: Value) -> Value {
    with(schema, "description", json!(description))
}

fn with(mut schema: Value, name: &str, value: Value) -> Value {
    schema[name] = value;
    schema
}

fn string_map(value: Value) -> Value {
    json!({
        "type": "object",
        "maxProperties": MAX_ENTRIES,
        "propertyNames": { "minLength": 1, "pattern": TEXT_PATTERN },
        "additionalProperties": value,
    })
}

/// A duration: milliseconds, or text with one number and unit.
fn duration(min: Duration, max: Duration) -> Value {
    const UNITS: [(&str, u128); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let (lower, max) = (u128::from(!min.is_zero()), max.as_millis());
    let fits = UNITS.into_iter().filter(|(_, millis)| max >= *millis);
    let patterns: Vec<String> =
        fits.map(|(unit, millis)| format!("0*({}) *{unit}", number_pattern(lower, max / millis))).collect();
    json!({ "oneOf": [
        { "type": "integer", "minimum": min.as_millis() as u64, "maximum": max as u64 },
        { "type": "string", "pattern": format!("^({})$", patterns.join("|")) },
    ] })
}

/// Regular expression of the whole numbers from `min`, which is 0 or 1, to `max`, without leading zeros.
fn number_pattern(min: u128, max: u128) -> String {
    let digits = max.to_string();
    let any = |count: usize| if count == 0 { String::new() } else { format!("[0-9]{{{count}}}") };
    let mut patterns = Vec::new();
    // All numbers with fewer digits.
    match digits.len() - 1 {
        0 => {}
        shorter if min == 0 => patterns.push(format!("[0-9]{{1,{shorter}}}")),
        shorter => patterns.push(format!("[1-9][0-9]{{0,{}}}", shorter - 1)),
    }
    // Numbers that have a smaller digit after a common prefix.
    for (at, digit) in digits.bytes().enumerate() {
        let low = match at {
            0 if digits.len() > 1 || min == 1 => b'1',
            _ => b'0',
        };
        if digit > low {
            let (low, high) = (char::from(low), char::from(digit - 1));
            patterns.push(format!("{}[{low}-{high}]{}", &digits[..at], any(digits.len() - at - 1)));
        }
    }
    patterns.push(digits);
    patterns.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_pattern_has_the_bounds_of_the_field() {
        for (min, max) in [(MIN_TTL, MAX_TTL), (Duration::ZERO, MAX_WAIT), (MIN_TTL, Duration::from_millis(1))] {
            let validator = jsonschema::validator_for(&duration(min, max)).unwrap();
            for (unit, millis) in [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)] {
                let limit = max.as_millis() as u64 / millis;
                let near_limit = limit.saturating_sub(1_500)..limit + 1_500;
                let lengths = (0..9).flat_map(|power| [10_u64.pow(power) - 1, 10_u64.pow(power)]);
                for count in (0..100).chain(near_limit).chain(lengths) {
                    // A unit longer than the maximum is left out, even if the number is 0.
                    let is_valid = limit > 0 && (u64::from(!min.is_zero())..=limit).contains(&count);
                    assert_eq!(
                        validator.is_valid(&json!(format!("{count}{unit}"))),
                        is_valid,
                        "{count}{unit} of {max:?}"
                    );
                }
            }
        }
    }
}

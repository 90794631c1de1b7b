//! A request out of JSON, by the rules of protobuf: names in either spelling, numbers also as text, units by
//! name or number, `null` for what is not there. What is unknown or said twice is refused.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::rls::proto::{Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, Unit};
use crate::rls::question::MOST_ENTRIES;

/// The most descriptors that are read at all: three bytes of text can be a hundred in memory.
const MOST_DESCRIPTORS: usize = 10_000;

/// Reads a request.
pub(super) fn request(body: &[u8]) -> Result<RateLimitRequest, serde_json::Error> {
    serde_json::from_slice::<Object<Request>>(body).map(|Object(request)| request.into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    domain: Option<String>,
    descriptors: Option<Bounded<Object<Descriptor>, MOST_DESCRIPTORS>>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Descriptor {
    entries: Option<Bounded<Object<Pair>, MOST_ENTRIES>>,
    limit: Option<Object<Override>>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<Number<u64>>,
    #[serde(alias = "isNegativeHits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    #[serde(alias = "requestsPerUnit")]
    requests_per_unit: Option<Number<u32>>,
    unit: Option<UnitName>,
    #[serde(alias = "unitMultiplier")]
    unit_multiplier: Option<Number<u32>>,
}

impl From<Request> for RateLimitRequest {
    fn from(request: Request) -> Self {
        Self {
            domain: request.domain.unwrap_or_default(),
            descriptors: all(request.descriptors),
            hits_addend: request.hits_addend.map(|Number(hits)| hits).unwrap_or_default(),
        }
    }
}

impl From<Descriptor> for RateLimitDescriptor {
    fn from(descriptor: Descriptor) -> Self {
        Self {
            entries: all(descriptor.entries),
            limit: descriptor.limit.map(|Object(limit)| limit.into()),
            hits_addend: descriptor.hits_addend.map(|Number(hits)| hits),
            is_negative_hits: descriptor.is_negative_hits.unwrap_or_default(),
        }
    }
}

impl From<Pair> for Entry {
    fn from(pair: Pair) -> Self {
        Self { key: pair.key.unwrap_or_default(), value: pair.value.unwrap_or_default() }
    }
}

impl From<Override> for RateLimitOverride {
    fn from(limit: Override) -> Self {
        Self {
            requests_per_unit: limit.requests_per_unit.map(|Number(requests)| requests).unwrap_or_default(),
            unit: limit.unit.map(|UnitName(unit)| unit).unwrap_or_default(),
            unit_multiplier: limit.unit_multiplier.map(|Number(times)| times),
        }
    }
}

fn all<T, U: From<T>, const MOST: usize>(list: Option<Bounded<Object<T>, MOST>>) -> Vec<U> {
    list.map(|Bounded(list)| list.into_iter().map(|Object(item)| item.into()).collect()).unwrap_or_default()
}

/// A message by the names of its fields. Left to itself, serde would take a list of their values for it, too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Naming<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Naming<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(Naming(PhantomData)).map(Self)
    }
}

/// A list of so many at most.
struct Bounded<T, const MOST: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Bounded<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Listing<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Listing<T, MOST> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of {MOST} at most")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    if list.len() == MOST {
                        return Err(A::Error::invalid_length(MOST + 1, &self));
                    }
                    list.push(item);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Listing::<T, MOST>(PhantomData)).map(Self)
    }
}

/// A number, or one as text.
struct Number<N>(N);

impl<'de, N: TryFrom<u64>> Deserialize<'de> for Number<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counting;

        impl Visitor<'_> for Counting {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number that is not negative")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
                Ok(number)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
                // Up to there, every whole number is itself.
                const LARGEST: f64 = 9_007_199_254_740_991.0;
                let is_whole = number.fract() == 0.0 && (0.0..=LARGEST).contains(&number);
                if is_whole {
                    Ok(number as u64)
                } else {
                    Err(E::invalid_value(serde::de::Unexpected::Float(number), &self))
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = if digits { text.parse().ok() } else { None };
                number.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        let number = deserializer.deserialize_any(Counting)?;
        N::try_from(number).map(Self).map_err(|_| D::Error::custom(format!("{number} is too large")))
    }
}

/// A unit by its name or its number.
struct UnitName(i32);

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Naming;

        impl Visitor<'_> for Naming {
            type Value = i32;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a unit: SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<i32, E> {
                let unit = Unit::from_str_name(name).map(Into::into);
                unit.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(name), &self))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<i32, E> {
                i32::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<i32, E> {
                i32::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
            }
        }

        deserializer.deserialize_any(Naming).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_mean_the_same() {
        let camel = br#"{"domain": "edge", "hitsAddend": "3", "descriptors": [{
            "entries": [{"key": "a", "value": "b"}, {"key": "c"}],
            "limit": {"requestsPerUnit": 7, "unit": "WEEK", "unitMultiplier": 2},
            "hitsAddend": "18446744073709551615", "isNegativeHits": true}]}"#;
        let snake = br#"{"domain": "edge", "hits_addend": 3.0, "descriptors": [{
            "entries": [{"key": "a", "value": "b"}, {"key": "c", "value": null}],
            "limit": {"requests_per_unit": "7", "unit": 7, "unit_multiplier": 2e0},
            "hits_addend": 18446744073709551615, "is_negative_hits": true}]}"#;
        let read = request(camel).unwrap();
        assert_eq!(read, request(snake).unwrap());
        assert_eq!((read.domain.as_str(), read.hits_addend, read.descriptors.len()), ("edge", 3, 1));
        let descriptor = &read.descriptors[0];
        assert_eq!((descriptor.hits_addend, descriptor.is_negative_hits), (Some(u64::MAX), true));
        let limit = RateLimitOverride { requests_per_unit: 7, unit: 7, unit_multiplier: Some(2) };
        assert_eq!(descriptor.limit, Some(limit));
        assert_eq!(descriptor.entries.len(), 2);
        assert_eq!(request(b"{}").unwrap(), RateLimitRequest::default());
        assert_eq!(request(br#"{"domain": null, "descriptors": null}"#).unwrap(), RateLimitRequest::default());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let many = format!(r#"{{"descriptors": [{}{{}}]}}"#, "{},".repeat(MOST_DESCRIPTORS));
        let crowded = format!(r#"{{"descriptors": [{{"entries": [{}{{}}]}}]}}"#, "{},".repeat(MOST_ENTRIES));
        for bad in [
            "",
            "[]",
            "{",
            "null x",
            r#"["edge", [], 1]"#,
            r#"{"descriptors": [[[], null, 1, false]]}"#,
            r#"{"descriptors": [{"entries": [["a", "b"]]}]}"#,
            r#"{"descriptors": [{"limit": [1, "SECOND", 1]}]}"#,
            r#"{"domain": 1}"#,
            r#"{"domian": "edge"}"#,
            r#"{"domain": "a", "domain": "b"}"#,
            r#"{"hitsAddend": 1, "hits_addend": 1}"#,
            r#"{"hitsAddend": -1}"#,
            r#"{"hitsAddend": 1.5}"#,
            r#"{"hitsAddend": 4294967296}"#,
            r#"{"hitsAddend": "1x"}"#,
            r#"{"hitsAddend": ""}"#,
            r#"{"descriptors": {}}"#,
            r#"{"descriptors": [{"entries": [{"key": "a", "val": "b"}]}]}"#,
            r#"{"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]}"#,
            r#"{"descriptors": [{"hits_addend": 18446744073709551616}]}"#,
            &deep,
            &many,
            &crowded,
        ] {
            assert!(request(bad.as_bytes()).is_err(), "{bad:.80}");
        }
    }
}

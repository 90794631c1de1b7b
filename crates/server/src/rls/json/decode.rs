//! Decodes requests by the protobuf JSON mapping: names in either spelling, numbers also as text, units by
//! name or number, `null` for absent fields. Unknown and duplicate fields are refused.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::rls::decode::MAX_ENTRIES;
use crate::rls::proto::{Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, Unit};

/// Maximum number of descriptors decoded: three bytes of text can take a hundred bytes of memory.
const MAX_DESCRIPTORS: usize = 10_000;

/// Decodes a request.
pub(super) fn decode_request(body: &[u8]) -> Result<RateLimitRequest, serde_json::Error> {
    serde_json::from_slice::<JsonObject<JsonRequest>>(body).map(|JsonObject(request)| request.into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonRequest {
    domain: Option<String>,
    descriptors: Option<BoundedVec<JsonObject<JsonDescriptor>, MAX_DESCRIPTORS>>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<JsonNumber<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonDescriptor {
    entries: Option<BoundedVec<JsonObject<JsonEntry>, MAX_ENTRIES>>,
    limit: Option<JsonObject<JsonOverride>>,
    #[serde(alias = "hitsAddend")]
    hits_addend: Option<JsonNumber<u64>>,
    #[serde(alias = "isNegativeHits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonEntry {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonOverride {
    #[serde(alias = "requestsPerUnit")]
    requests_per_unit: Option<JsonNumber<u32>>,
    unit: Option<UnitName>,
    #[serde(alias = "unitMultiplier")]
    unit_multiplier: Option<JsonNumber<u32>>,
}

impl From<JsonRequest> for RateLimitRequest {
    fn from(request: JsonRequest) -> Self {
        Self {
            domain: request.domain.unwrap_or_default(),
            descriptors: convert_list(request.descriptors),
            hits_addend: request.hits_addend.map(|JsonNumber(hits)| hits).unwrap_or_default(),
        }
    }
}

impl From<JsonDescriptor> for RateLimitDescriptor {
    fn from(descriptor: JsonDescriptor) -> Self {
        Self {
            entries: convert_list(descriptor.entries),
            limit: descriptor.limit.map(|JsonObject(limit)| limit.into()),
            hits_addend: descriptor.hits_addend.map(|JsonNumber(hits)| hits),
            is_negative_hits: descriptor.is_negative_hits.unwrap_or_default(),
        }
    }
}

impl From<JsonEntry> for Entry {
    fn from(entry: JsonEntry) -> Self {
        Self { key: entry.key.unwrap_or_default(), value: entry.value.unwrap_or_default() }
    }
}

impl From<JsonOverride> for RateLimitOverride {
    fn from(limit: JsonOverride) -> Self {
        Self {
            requests_per_unit: limit.requests_per_unit.map(|JsonNumber(requests)| requests).unwrap_or_default(),
            unit: limit.unit.map(|UnitName(unit)| unit).unwrap_or_default(),
            unit_multiplier: limit.unit_multiplier.map(|JsonNumber(times)| times),
        }
    }
}

fn convert_list<T, U: From<T>, const MAX: usize>(list: Option<BoundedVec<JsonObject<T>, MAX>>) -> Vec<U> {
    list.map(|BoundedVec(list)| list.into_iter().map(|JsonObject(item)| item.into()).collect()).unwrap_or_default()
}

/// A message as a JSON object. By default serde would also accept an array of field values.
struct JsonObject<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }

        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

/// A list with a maximum length.
struct BoundedVec<T, const MAX: usize>(Vec<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedVec<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for ListVisitor<T, MAX> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    if list.len() == MAX {
                        return Err(A::Error::invalid_length(MAX + 1, &self));
                    }
                    list.push(item);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(ListVisitor::<T, MAX>(PhantomData)).map(Self)
    }
}

/// A number, also as text.
struct JsonNumber<N>(N);

impl<'de, N: TryFrom<u64>> Deserialize<'de> for JsonNumber<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;

        impl Visitor<'_> for NumberVisitor {
            type Value = u64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, 0 or more")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
                Ok(number)
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
                // Up to here, `f64` represents every integer exactly.
                const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
                let is_whole = number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(&number);
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

        let number = deserializer.deserialize_any(NumberVisitor)?;
        N::try_from(number).map(Self).map_err(|_| D::Error::custom(format!("{number} is too large")))
    }
}

/// A unit by name or number.
struct UnitName(i32);

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UnitVisitor;

        impl Visitor<'_> for UnitVisitor {
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

        deserializer.deserialize_any(UnitVisitor).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snake_case_and_camel_case_are_equivalent() {
        let camel = br#"{"domain": "edge", "hitsAddend": "3", "descriptors": [{
            "entries": [{"key": "a", "value": "b"}, {"key": "c"}],
            "limit": {"requestsPerUnit": 7, "unit": "WEEK", "unitMultiplier": 2},
            "hitsAddend": "18446744073709551615", "isNegativeHits": true}]}"#;
        let snake = br#"{"domain": "edge", "hits_addend": 3.0, "descriptors": [{
            "entries": [{"key": "a", "value": "b"}, {"key": "c", "value": null}],
            "limit": {"requests_per_unit": "7", "unit": 7, "unit_multiplier": 2e0},
            "hits_addend": 18446744073709551615, "is_negative_hits": true}]}"#;
        let read = decode_request(camel).unwrap();
        assert_eq!(read, decode_request(snake).unwrap());
        assert_eq!((read.domain.as_str(), read.hits_addend, read.descriptors.len()), ("edge", 3, 1));
        let descriptor = &read.descriptors[0];
        assert_eq!((descriptor.hits_addend, descriptor.is_negative_hits), (Some(u64::MAX), true));
        let limit = RateLimitOverride { requests_per_unit: 7, unit: 7, unit_multiplier: Some(2) };
        assert_eq!(descriptor.limit, Some(limit));
        assert_eq!(descriptor.entries.len(), 2);
        assert_eq!(decode_request(b"{}").unwrap(), RateLimitRequest::default());
        assert_eq!(decode_request(br#"{"domain": null, "descriptors": null}"#).unwrap(), RateLimitRequest::default());
    }

    #[test]
    fn an_invalid_request_is_refused() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let many = format!(r#"{{"descriptors": [{}{{}}]}}"#, "{},".repeat(MAX_DESCRIPTORS));
        let crowded = format!(r#"{{"descriptors": [{{"entries": [{}{{}}]}}]}}"#, "{},".repeat(MAX_ENTRIES));
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
            assert!(decode_request(bad.as_bytes()).is_err(), "{bad:.80}");
        }
    }
}

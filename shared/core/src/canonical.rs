//! Canonical JSON (RFC 8785) and its SHA-256: what an approval is bound to.

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// A SHA-256 in lower-case hex.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sha256Hex(String);

impl Sha256Hex {
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex::encode(Sha256::digest(bytes)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    #[error("the JSON is not well formed: {0}")]
    Malformed(String),
    #[error("the arguments must be one JSON object")]
    NotAnObject,
    /// RFC 8785 numbers are IEEE 754 doubles: a longer integer would be shown as one number and
    /// sent as another.
    #[error("the number {0} cannot be represented exactly; send it as text")]
    InexactNumber(String),
    #[error("the arguments are larger than {limit} bytes")]
    TooLarge { limit: usize },
}

/// JSON in its one spelling, with the hash of exactly these bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Canonical {
    text: String,
    hash: Sha256Hex,
}

impl Canonical {
    /// Reads text; refuses duplicate keys, which different parsers would resolve differently.
    pub fn parse(text: &str) -> Result<Self, CanonicalError> {
        let StrictValue(value) = serde_json::from_str(text)
            .map_err(|error| CanonicalError::Malformed(error.to_string()))?;
        check_long_integers(text)?;
        Self::of(&value)
    }

    pub fn of(value: &Value) -> Result<Self, CanonicalError> {
        check_numbers(value)?;
        Self::rounded(value)
    }

    /// As [`Self::of`], but takes long integers as the doubles nearest to them: for what is only
    /// compared, such as a schema's bounds, and never sent.
    pub(crate) fn rounded(value: &Value) -> Result<Self, CanonicalError> {
        let text = serde_json_canonicalizer::to_string(value)
            .map_err(|error| CanonicalError::Malformed(error.to_string()))?;
        let hash = Sha256Hex::of(text.as_bytes());
        Ok(Self { text, hash })
    }

    /// `{}`
    pub fn empty_object() -> Self {
        let text = "{}".to_owned();
        let hash = Sha256Hex::of(text.as_bytes());
        Self { text, hash }
    }

    /// Tool arguments: one object of at most `limit` bytes, before and after.
    pub fn arguments(text: &str, limit: usize) -> Result<Self, CanonicalError> {
        if text.len() > limit {
            return Err(CanonicalError::TooLarge { limit });
        }
        let canonical = Self::parse(text)?;
        if canonical.text.len() > limit {
            return Err(CanonicalError::TooLarge { limit });
        }
        if !canonical.text.starts_with('{') {
            return Err(CanonicalError::NotAnObject);
        }
        Ok(canonical)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn hash(&self) -> &Sha256Hex {
        &self.hash
    }

    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The object's members; empty for anything else.
    pub fn object(&self) -> Map<String, Value> {
        match self.value() {
            Value::Object(map) => map,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Map::new(),
        }
    }
}

impl Serialize for Canonical {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Canonical {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

fn check_numbers(value: &Value) -> Result<(), CanonicalError> {
    match value {
        Value::Number(number) if !is_exact(number) => {
            Err(CanonicalError::InexactNumber(number.to_string()))
        }
        Value::Array(items) => items.iter().try_for_each(check_numbers),
        Value::Object(map) => map.values().try_for_each(check_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Whether the double that stands for the number reads as the number does.
fn is_exact(number: &Number) -> bool {
    number.is_f64() || reads_as(number, &number.to_string())
}

fn reads_as(number: &Number, text: &str) -> bool {
    serde_json_canonicalizer::to_string(number).is_ok_and(|canonical| canonical == text)
}

/// Refuses integers beyond 64 bits that the parser has rounded unseen. `text` is well formed.
fn check_long_integers(text: &str) -> Result<(), CanonicalError> {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[start..];
        let end = if rest.starts_with('"') {
            end_of_string(rest)
        } else {
            rest.find([',', ']', '}', ' ', '\t', '\r', '\n'])
        };
        let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
        let digits = token.strip_prefix('-').unwrap_or(token);
        let is_long = digits.len() > 18 && digits.bytes().all(|b| b.is_ascii_digit());
        if is_long && !token.parse().is_ok_and(|number| reads_as(&number, token)) {
            return Err(CanonicalError::InexactNumber(token.to_owned()));
        }
        rest = after;
    }
    Ok(())
}

fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    let closing = text.bytes().skip(1).position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    Some(closing + 2)
}

/// A JSON value that refuses a repeated key at any depth.
struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = StrictValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::from(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::from(value)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<StrictValue, E> {
        Number::from_f64(value)
            .map(|number| StrictValue(Value::Number(number)))
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::String(value.to_owned())))
    }

    fn visit_string<E>(self, value: String) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::String(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<StrictValue, A::Error> {
        let mut items = Vec::new();
        while let Some(StrictValue(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(StrictValue(Value::Array(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<StrictValue, A::Error> {
        let mut map = Map::new();
        let mut seen = HashSet::new();
        while let Some(key) = access.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(de::Error::custom(format!("the key {key:?} stands twice")));
            }
            let StrictValue(value) = access.next_value()?;
            map.insert(key, value);
        }
        Ok(StrictValue(Value::Object(map)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(json: &str) -> String {
        Canonical::parse(json).unwrap().as_str().to_owned()
    }

    #[test]
    fn vectors_of_canonical_json_hold() {
        let vectors = [
            (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
            (
                r#"{ "x" : [ 1 , 2.0, 1e1 , 10.0 ] }"#,
                r#"{"x":[1,2,10,10]}"#,
            ),
            (
                r#"{"n":1E21,"m":1e-7,"z":-0.0}"#,
                r#"{"m":1e-7,"n":1e+21,"z":0}"#,
            ),
            (
                r#"{"\u20ac":"\u20AC","\r":"a"}"#,
                "{\"\\r\":\"a\",\"€\":\"€\"}",
            ),
            (r#"{"a":"\/\u0008\u000f"}"#, "{\"a\":\"/\\b\\u000f\"}"),
            (r#"{"😀":1,"ﬀ":2}"#, r#"{"😀":1,"ﬀ":2}"#),
            (r#"{"big":9007199254740992}"#, r#"{"big":9007199254740992}"#),
            ("{}", "{}"),
        ];
        for (input, expected) in vectors {
            assert_eq!(text(input), expected, "{input}");
        }
    }

    #[test]
    fn a_hash_is_of_the_canonical_bytes() {
        let one = Canonical::parse(r#"{"text":"hi","channel":"general"}"#).unwrap();
        let two = Canonical::parse(r#"{ "channel":"general","text":"\u0068i" }"#).unwrap();
        assert_eq!(one.hash(), two.hash());
        assert_eq!(one.as_str(), r#"{"channel":"general","text":"hi"}"#);
        assert_eq!(
            one.hash().as_str(),
            "6a299f389a3d0bbb1ecb824d2f813bae7b43acef76f7a0bdb01f1b6ee8a0b3b6"
        );
    }

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        for json in [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"\u0061":2}]}"#] {
            let error = Canonical::parse(json).unwrap_err();
            assert!(matches!(error, CanonicalError::Malformed(ref text) if text.contains("twice")));
        }
    }

    /// The doubles of RFC 8785, appendix B, by their bits.
    #[test]
    fn doubles_are_written_as_the_rfc_writes_them() {
        let samples = [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ];
        for (bits, expected) in samples {
            let canonical = Canonical::of(&Value::from(f64::from_bits(bits))).unwrap();
            assert_eq!(canonical.as_str(), expected, "{bits:#018x}");
            assert_eq!(Canonical::parse(expected).unwrap(), canonical);
        }
        for bits in [0x7fff_ffff_ffff_ffff, 0x7ff0_0000_0000_0000] {
            assert!(Number::from_f64(f64::from_bits(bits)).is_none());
        }
        assert!(Canonical::parse("1e309").is_err());
    }

    #[test]
    fn literals_and_strings_are_written_as_the_rfc_writes_them() {
        let input = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let expected = concat!(
            r#"{"literals":[null,true,false],"#,
            r#""numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
            r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        assert_eq!(text(input), expected);
    }

    #[test]
    fn keys_are_sorted_by_their_utf_16_units() {
        let input = r#"{
            "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
            "\u00f6": "Latin Small Letter O With Diaeresis"
        }"#;
        let canonical = text(input);
        let names = [
            "Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew",
        ];
        let places = names.map(|name| canonical.find(name).unwrap());
        assert!(places.is_sorted(), "{canonical}");
        // By code points the emoji would come last, and so it would by bytes of UTF-8.
        assert_eq!(
            text("{\"\u{fb33}\":1,\"\u{1f600}\":2}"),
            "{\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
        assert_eq!(
            text(r#"{"b":{"z":1,"a":2},"":0,"a":[{"y":1,"x":2}]}"#),
            r#"{"":0,"a":[{"x":2,"y":1}],"b":{"a":2,"z":1}}"#
        );
    }

    #[test]
    fn text_is_neither_normalised_nor_escaped_without_need() {
        for string in ["\"A\u{30a}\"", "\"\u{c5}\"", "\"\u{7f}\u{2028}<&>\""] {
            assert_eq!(text(string), string);
        }
    }

    #[test]
    fn lone_surrogates_are_refused() {
        for json in [
            r#""\ud800""#,
            r#""\udead""#,
            r#"["\ud83d\u0041"]"#,
            r#"{"\ude00\ud83d":1}"#,
        ] {
            assert!(
                matches!(Canonical::parse(json), Err(CanonicalError::Malformed(_))),
                "{json}"
            );
        }
    }

    #[test]
    fn nesting_has_a_bound() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        for make in [&nested as &dyn Fn(usize) -> String, &objects] {
            assert_eq!(text(&make(127)), make(127));
            for depth in [128, 1_000, 1_000_000] {
                let error = Canonical::parse(&make(depth)).unwrap_err();
                assert!(matches!(error, CanonicalError::Malformed(_)), "{depth}");
            }
        }
    }

    #[test]
    fn text_after_the_value_and_other_spellings_are_refused() {
        for json in [
            "",
            "1 2",
            "{} {}",
            "[1,]",
            "{'a':1}",
            "NaN",
            "-Infinity",
            "01",
            "+1",
            "\u{feff}1",
        ] {
            assert!(
                matches!(Canonical::parse(json), Err(CanonicalError::Malformed(_))),
                "{json:?}"
            );
        }
    }

    #[test]
    fn numbers_that_would_change_on_the_way_are_refused() {
        for number in [
            "9007199254740993",
            "-9007199254740993",
            "9223372036854775807",
            "18446744073709551615",
            "18446744073709551617",
            "-9223372036854775809",
            "123456789012345678901234567890",
        ] {
            for json in [
                number.to_owned(),
                format!(r#"{{"a\\":"\"","n":[{number} ]}}"#),
                format!("[\n{number}\n]"),
            ] {
                let error = Canonical::parse(&json).unwrap_err();
                assert_eq!(
                    error,
                    CanonicalError::InexactNumber(number.to_owned()),
                    "{json}"
                );
            }
        }
        // As text they are as good as any other text.
        let quoted = r#"{"a\"123456789012345678901":"123456789012345678901"}"#;
        assert_eq!(text(quoted), quoted);
    }

    #[test]
    fn integers_that_a_double_holds_are_kept() {
        for number in [
            "9007199254740994",
            "10000000000000000",
            "100000000000000000000",
            "-9007199254740994",
        ] {
            assert_eq!(text(number), number);
        }
        assert_eq!(text("1e16"), "10000000000000000");
    }

    #[test]
    fn arguments_are_one_object_within_the_limit() {
        assert_eq!(
            Canonical::arguments("[1]", 100),
            Err(CanonicalError::NotAnObject)
        );
        assert_eq!(
            Canonical::arguments(r#"{"a":"xxxxxxxx"}"#, 8),
            Err(CanonicalError::TooLarge { limit: 8 })
        );
        assert!(matches!(
            Canonical::arguments("{", 100),
            Err(CanonicalError::Malformed(_))
        ));
        // Short to write, long to send.
        assert_eq!(
            Canonical::arguments(r#"{"a":1e20}"#, 20),
            Err(CanonicalError::TooLarge { limit: 20 })
        );
        let most = r#"{"a":"xxxx"}"#;
        assert!(Canonical::arguments(most, most.len()).is_ok());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-1e22_f64..1e22).prop_map(|number| Value::from(number.trunc())),
            ".*".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_text_is_a_fixed_point(value in any_json()) {
            let once = Canonical::of(&value).unwrap();
            let twice = Canonical::parse(once.as_str()).unwrap();
            prop_assert_eq!(once, twice);
        }
    }
}

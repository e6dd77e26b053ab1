//! Exact things that a text names: ids, amounts, dates, quoted names, addresses.
//!
//! A summary keeps them beside its words, because words are made by a model and these must not
//! change. What counts is told by its form alone, in any language: a digit, an address, a quote.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// What is longer is no identifier, in characters.
const LONGEST: usize = 100;
/// Identifiers that are kept of one kind, and their bytes together.
const KEPT: usize = 100;
const KEPT_BYTES: usize = 4 * 1024;

/// Identifiers in the order of their mention, the last ones of which are kept.
pub fn keep(list: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for identifier in more {
        list.retain(|known| *known != identifier);
        list.push(identifier);
    }
    let mut bytes = 0;
    let fits = list
        .iter()
        .rev()
        .take(KEPT)
        .take_while(|identifier| {
            bytes += identifier.len();
            bytes <= KEPT_BYTES
        })
        .count();
    list.drain(..list.len() - fits);
}

/// The identifiers of a text, each once, in order. JSON is read as such.
pub fn identifiers(text: &str) -> Vec<String> {
    let trimmed = text.trim_start();
    if trimmed.starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str(trimmed)
    {
        return identifiers_in(&value);
    }
    let mut found = Found::default();
    for line in text.lines() {
        found.line(line);
    }
    found.list
}

/// The identifiers of arguments: a short text is one as a whole.
pub fn identifiers_of_arguments(arguments: &Map<String, Value>) -> Vec<String> {
    let mut found = Found::default();
    for (name, value) in arguments {
        found.value(Some(name), value, true);
    }
    found.list
}

fn identifiers_in(value: &Value) -> Vec<String> {
    let mut found = Found::default();
    found.value(None, value, false);
    found.list
}

#[derive(Default)]
struct Found {
    list: Vec<String>,
    known: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, identifier: &str) {
        let identifier = identifier.trim();
        let length = identifier.chars().count();
        if (1..=LONGEST).contains(&length) && self.known.insert(identifier.to_owned()) {
            self.list.push(identifier.to_owned());
        }
    }

    fn value(&mut self, key: Option<&str>, value: &Value, whole: bool) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let number = number.to_string();
                match key {
                    Some(key) => self.add(&format!("{key}={number}")),
                    None => self.line(&number),
                }
            }
            Value::String(text) => {
                let short = text.chars().count() <= LONGEST && !text.contains('\n');
                if short && (whole || key.is_some_and(names_something)) {
                    self.add(text);
                } else {
                    text.lines().for_each(|line| self.line(line));
                }
            }
            Value::Array(values) => values
                .iter()
                .for_each(|value| self.value(key, value, whole)),
            Value::Object(members) => {
                for (key, value) in members {
                    self.value(Some(key), value, whole);
                }
            }
        }
    }

    fn line(&mut self, line: &str) {
        let quotes = quotes(line);
        let mut run: Vec<&str> = Vec::new();
        let mut quotes = quotes.into_iter().peekable();
        for (place, word) in words(line) {
            while let Some((_, quote)) = quotes.next_if(|(start, _)| *start <= place) {
                self.end_run(&mut run);
                self.add(quote);
            }
            match kind(word) {
                Kind::Number | Kind::Unit => run.push(word),
                Kind::Identifier => {
                    self.end_run(&mut run);
                    self.add(word);
                }
                Kind::Word => self.end_run(&mut run),
            }
        }
        self.end_run(&mut run);
        quotes.for_each(|(_, quote)| self.add(quote));
    }

    /// Numbers and units that stand together are one: a date, an amount, a telephone number.
    fn end_run(&mut self, run: &mut Vec<&str>) {
        let run = std::mem::take(run);
        let numbers: Vec<&&str> = run
            .iter()
            .filter(|word| kind(word) == Kind::Number)
            .collect();
        let digits: usize = numbers.iter().map(|word| digits(word)).sum();
        let broken = numbers.iter().any(|word| word.contains(['.', ',']));
        // A small number that stands alone says nothing without its sentence.
        let says = run.len() > numbers.len() || digits > 3 || broken;
        if !numbers.is_empty() && says {
            self.add(&run.join(" "));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Digits alone, with the marks that may stand between them.
    Number,
    /// The name of a month or a currency.
    Unit,
    Identifier,
    Word,
}

fn kind(word: &str) -> Kind {
    let has_digit = word.contains(|c: char| c.is_ascii_digit());
    if !has_digit {
        let address = word.contains("://") || word.starts_with("www.");
        let at = word.find('@').is_some_and(|at| at + 1 < word.len());
        let tag = word.strip_prefix('#').is_some_and(|name| !name.is_empty());
        return if address || at || tag {
            Kind::Identifier
        } else if is_unit(word) {
            Kind::Unit
        } else {
            Kind::Word
        };
    }
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '\'');
    if word.chars().all(plain) {
        Kind::Number
    } else {
        Kind::Identifier
    }
}

fn digits(word: &str) -> usize {
    word.chars().filter(char::is_ascii_digit).count()
}

/// Months by their first letters in a few languages, and common currencies.
fn is_unit(word: &str) -> bool {
    const MONTHS: [&str; 26] = [
        "jan", "feb", "mar", "mär", "apr", "abr", "avr", "may", "mai", "jun", "jui", "jul", "aug",
        "ago", "aoû", "sep", "set", "okt", "oct", "out", "nov", "dec", "dez", "dic", "déc", "fév",
    ];
    const CURRENCIES: [&str; 20] = [
        "eur", "usd", "gbp", "inr", "chf", "cad", "aud", "jpy", "cny", "brl", "mxn", "zar", "sek",
        "nok", "dkk", "pln", "€", "$", "£", "₹",
    ];
    const WORDS: [&str; 10] = [
        "euro", "euros", "dollar", "dollars", "pound", "pounds", "rupee", "rupees", "franc",
        "francs",
    ];
    let word = word.to_lowercase();
    let start: String = word.chars().take(3).collect();
    let is_month = word.chars().count() <= 10
        && word.chars().all(char::is_alphabetic)
        && MONTHS.contains(&start.as_str());
    is_month || CURRENCIES.contains(&word.as_str()) || WORDS.contains(&word.as_str())
}

/// Whether a JSON member of this name holds what something is called.
fn names_something(key: &str) -> bool {
    const ENDS: [&str; 10] = [
        "id", "name", "title", "email", "number", "code", "ref", "url", "author", "key",
    ];
    let key = key.to_lowercase();
    ENDS.iter().any(|end| key.ends_with(end))
}

/// The words of a line without the punctuation around them, each with its place.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    const AROUND: &[char] = &[
        '.', ',', ';', ':', '!', '?', '(', ')', '[', ']', '{', '}', '<', '>', '"', '\'', '“', '”',
        '„', '‟', '«', '»', '‘', '’', '*', '_', '|', '`', '…',
    ];
    let mut next = 0;
    let places = line.split_inclusive(char::is_whitespace).map(move |word| {
        let place = next;
        next += word.len();
        (place, word.trim().trim_matches(AROUND))
    });
    places.filter(|(_, word)| !word.is_empty())
}

/// Texts in quotes, each with the place of its quote.
fn quotes(line: &str) -> Vec<(usize, &str)> {
    const PAIRS: [(char, &[char]); 5] = [
        ('"', &['"']),
        ('“', &['”', '"']),
        ('„', &['“', '”', '"']),
        ('«', &['»']),
        ('‘', &['’']),
    ];
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some((start, open)) = line.get(rest..).and_then(|text| {
        text.char_indices()
            .find(|(_, c)| PAIRS.iter().any(|(open, _)| open == c))
    }) {
        let inside = rest + start + open.len_utf8();
        let closes = PAIRS
            .iter()
            .find(|(c, _)| *c == open)
            .map_or(&[][..], |(_, closes)| closes);
        let text = line.get(inside..).unwrap_or_default();
        match text.char_indices().find(|(_, c)| closes.contains(c)) {
            Some((end, close)) => {
                found.push((rest + start, text.get(..end).unwrap_or_default()));
                rest = inside + end + close.len_utf8();
            }
            None => rest = inside,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_amounts_dates_quoted_names_and_addresses_are_found_in_their_order() {
        let text = "Please pay invoice INV-2026/017 of EUR 1,250.00 (or 12.50 €) by 12 May 2026 for \
                    “Ann-Marie O'Neil” in class 7b; write to office@lakeside.example, #general or \
                    @head, call 0171 555 123 before 10:30, see https://lakeside.example/fees?id=5.";
        assert_eq!(
            identifiers(text),
            [
                "INV-2026/017",
                "EUR 1,250.00",
                "12.50 €",
                "12 May 2026",
                "Ann-Marie O'Neil",
                "7b",
                "office@lakeside.example",
                "#general",
                "@head",
                "0171 555 123",
                "10:30",
                "https://lakeside.example/fees?id=5",
            ]
        );
        let ids =
            "01J8ZZZZZZZZZZZZZZZZZZZZZZ 550e8400-e29b-41d4-a716-446655440000 2026-05-12 C0123ABC";
        assert_eq!(identifiers(ids), ids.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn plain_words_and_small_numbers_are_none() {
        for text in [
            "",
            "hello there",
            "I have 3 children and 12 apples.",
            "1. First\n2. Second",
            "a # b @ c",
            "may I go out",
            "an open \" quote",
        ] {
            assert_eq!(identifiers(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn quotes_of_all_kinds_are_read_and_long_ones_are_not_names() {
        let text = "„Schule am See“, «École du Lac», \"Lake School\" and ‘the lake’ but not O’Neil";
        let names = ["Schule am See", "École du Lac", "Lake School", "the lake"];
        assert_eq!(identifiers(text), names);
        assert_eq!(identifiers(&format!("\"{}\"", "x".repeat(200))), [""; 0]);
    }

    #[test]
    fn of_json_the_values_that_name_something_and_the_numbers_with_their_names() {
        let answer = json!({
            "messages": [{ "ts": "1796062800.0001", "author": "Ann Lee", "text": "Pay EUR 50 today" }],
            "balance": 1250, "ok": true, "next": null, "author_id": "U1"
        });
        assert_eq!(
            identifiers(&answer.to_string()),
            ["U1", "balance=1250", "Ann Lee", "EUR 50", "1796062800.0001"]
        );
        let arguments = json!({ "channel": "#general", "text": "short words", "n": 3 });
        assert_eq!(
            identifiers_of_arguments(arguments.as_object().unwrap()),
            ["#general", "n=3", "short words"]
        );
    }

    #[test]
    fn the_last_named_are_kept_and_each_once() {
        let mut list = Vec::new();
        keep(&mut list, (0..KEPT + 20).map(|n| format!("ID-{n}")));
        assert_eq!((list.len(), list[0].as_str()), (KEPT, "ID-20"));
        keep(&mut list, ["ID-50".to_owned(), "new".to_owned()]);
        assert_eq!((list.len(), list[0].as_str()), (KEPT, "ID-21"));
        assert_eq!(list[KEPT - 2..], ["ID-50", "new"]);
        let long = |n: usize| format!("{n:090}");
        keep(&mut list, (0..KEPT).map(long));
        assert_eq!(list.len(), KEPT_BYTES / 90);
        assert_eq!(list.last(), Some(&long(KEPT - 1)));
    }

    proptest! {
        #[test]
        fn whatever_is_found_stands_in_the_text(text in "[ a-zA-Z0-9.,:€\"“”@#/\\n-]{0,80}") {
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for identifier in identifiers(&text) {
                let identifier = identifier.split_whitespace().collect::<Vec<_>>().join(" ");
                // Units and numbers that stand together may have had punctuation between them.
                prop_assert!(identifier.split(' ').all(|word| flat.contains(word)), "{}", identifier);
            }
        }
    }
}

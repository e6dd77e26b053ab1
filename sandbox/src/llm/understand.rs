//! The sentences that the scripted model understands.

/// One thing a person asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Channels,
    /// The next part of the last long result.
    ReadOn,
    /// The channel's name with its `#`.
    Read(String),
    Post {
        text: String,
        channel: String,
    },
}

/// More wishes than this in one sentence are not understood.
const MOST_WISHES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Quoted(String),
    Channel(String),
    Word(String),
}

/// What a message asks for, step by step; `None` if it is none of the known sentences.
pub(super) fn understand(message: &str) -> Option<Vec<Vec<Wish>>> {
    let tokens = tokens(message)?;
    if let Some(words) = words(&tokens)
        && matches!(
            words.as_slice(),
            ["what" | "which", "channels", "are", "there"] | ["list", "channels"]
        )
    {
        return Some(vec![vec![Wish::Channels]]);
    }
    if words(&tokens).is_some_and(|words| words == ["read", "on"]) {
        return Some(vec![vec![Wish::ReadOn]]);
    }
    let mut steps = Vec::new();
    let mut wishes = Vec::new();
    let mut rest = tokens.as_slice();
    for _ in 0..MOST_WISHES {
        let (wish, after) = wish(rest, !wishes.is_empty())?;
        wishes.push(wish);
        rest = match after {
            [] => {
                steps.push(wishes);
                return Some(steps);
            }
            [Token::Word(and), more @ ..] if and == "and" => more,
            [Token::Word(then), more @ ..] if then == "then" => {
                steps.push(std::mem::take(&mut wishes));
                more
            }
            _ => return None,
        };
    }
    None
}

fn words(tokens: &[Token]) -> Option<Vec<&str>> {
    let word = |token: &'_ Token| match token {
        Token::Word(_) => true,
        Token::Quoted(_) | Token::Channel(_) => false,
    };
    tokens.iter().all(word).then(|| {
        let texts = tokens.iter().filter_map(|token| match token {
            Token::Word(word) => Some(word.as_str()),
            Token::Quoted(_) | Token::Channel(_) => None,
        });
        texts.collect()
    })
}

/// One clause; after the first, `post` may be left out.
fn wish(tokens: &[Token], later: bool) -> Option<(Wish, &[Token])> {
    match tokens {
        [Token::Word(read), Token::Channel(channel), rest @ ..] if read == "read" => {
            Some((Wish::Read(channel.clone()), rest))
        }
        [Token::Word(post), rest @ ..] if post == "post" => post_clause(rest),
        rest if later => post_clause(rest),
        _ => None,
    }
}

fn post_clause(tokens: &[Token]) -> Option<(Wish, &[Token])> {
    match tokens {
        [
            Token::Quoted(text),
            Token::Word(to),
            Token::Channel(channel),
            rest @ ..,
        ] if to == "to" && !text.trim().is_empty() => Some((
            Wish::Post {
                text: text.clone(),
                channel: channel.clone(),
            },
            rest,
        )),
        _ => None,
    }
}

/// Splits a message into lower-case words, channels and quoted texts. `None`: a quote stays open.
fn tokens(message: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = message.trim();
    while let Some(first) = rest.chars().next() {
        if is_quote(first) {
            let inside = &rest[first.len_utf8()..];
            let end = inside.find(is_quote)?;
            tokens.push(Token::Quoted(inside[..end].to_owned()));
            let closing = inside[end..].chars().next().map_or(0, char::len_utf8);
            rest = inside[end + closing..].trim_start_matches(is_filler);
            continue;
        }
        let end = rest
            .find(|c: char| is_filler(c) || is_quote(c))
            .unwrap_or(rest.len());
        let word = rest[..end].to_lowercase();
        if let Some(name) = word.strip_prefix('#') {
            if name.is_empty() {
                return None;
            }
            tokens.push(Token::Channel(word));
        } else if !word.is_empty() && word != "please" {
            tokens.push(Token::Word(word));
        }
        rest = rest[end..].trim_start_matches(is_filler);
    }
    Some(tokens)
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '‟' | '«' | '»')
}

fn is_filler(c: char) -> bool {
    c.is_whitespace() || matches!(c, '.' | ',' | '?' | '!' | ':' | ';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(text: &str, channel: &str) -> Wish {
        Wish::Post {
            text: text.into(),
            channel: channel.into(),
        }
    }

    #[test]
    fn the_known_sentences_are_understood_in_any_case_and_with_any_quotes() {
        let rows = [
            ("What channels are there?", vec![Wish::Channels]),
            ("Read on, please.", vec![Wish::ReadOn]),
            ("read #Science", vec![Wish::Read("#science".into())]),
            (
                r#"Post "Sports day moved to Friday" to #general"#,
                vec![post("Sports day moved to Friday", "#general")],
            ),
            (
                "post “Hi, all!” to #general.",
                vec![post("Hi, all!", "#general")],
            ),
            (
                r#"POST "X" to #c and "Y" TO #d"#,
                vec![post("X", "#c"), post("Y", "#d")],
            ),
            (
                r#"post "X" to #c and post "Y" to #d"#,
                vec![post("X", "#c"), post("Y", "#d")],
            ),
            (
                r#"read #c and post "a and b" to #d"#,
                vec![Wish::Read("#c".into()), post("a and b", "#d")],
            ),
        ];
        for (message, wishes) in rows {
            assert_eq!(understand(message), Some(vec![wishes]), "{message}");
        }
    }

    #[test]
    fn then_begins_another_step() {
        let steps = vec![
            vec![post("X", "#c"), post("Y", "#d")],
            vec![Wish::Read("#c".into())],
        ];
        let message = r##"post "X" to #c and "Y" to #d, then read #c"##;
        assert_eq!(understand(message), Some(steps));
    }

    #[test]
    fn anything_else_is_not_understood() {
        let rows = [
            "",
            "hello",
            "post X to #c",
            r#"post "X""#,
            r#"post "X to #c"#,
            r#"post "" to #c"#,
            r#"do not post "X" to #c"#,
            r#"post "X" to #c and then sing"#,
            r#"post "X" to #c then "Y" to #d"#,
            "read #",
            "what channels are there and why",
        ];
        for message in rows {
            assert_eq!(understand(message), None, "{message}");
        }
    }
}

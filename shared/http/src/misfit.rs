//! What does not fit, in words that say what to do instead of the parser's own.

/// `message` is the parser's, about what stands at `path`; `whole` is what a path leads into.
pub(crate) fn sentence(whole: &str, path: &str, message: &str) -> String {
    let path = path.trim_matches('.');
    let place = if path.is_empty() {
        whole.to_owned()
    } else {
        format!("`{path}`")
    };
    let field = |name: &str| match path.rsplit('.').next() {
        // The path may lead to the object, or to its field already.
        Some(last) if last == name => format!("`{path}`"),
        Some("") | None => format!("`{name}`"),
        Some(_) => format!("`{path}.{name}`"),
    };
    let mut quoted = message.split('`').skip(1).step_by(2);
    match message.split_once(" field ") {
        Some(("missing", _)) => {
            return format!("{} is missing.", field(quoted.next().unwrap_or("?")));
        }
        Some(("duplicate", _)) => {
            return format!("{} is given twice.", field(quoted.next().unwrap_or("?")));
        }
        Some(("unknown", _)) => {
            let name = field(quoted.next().unwrap_or("?"));
            let known: Vec<String> = quoted.map(|name| format!("`{name}`")).collect();
            return format!("{name} is not known here: use {}.", known.join(", "));
        }
        _ => {}
    }
    let wanted = message.split_once(", expected ").map(|(_, wanted)| wanted);
    let wanted = wanted.and_then(|wanted| {
        let begins = |word| wanted.starts_with(word);
        Some(match () {
            () if begins("a string") => "text",
            () if begins("a boolean") => "true or false",
            () if begins("a sequence") => "a list",
            () if begins("struct") || begins("a map") => "an object",
            () if begins("u") || begins("i") || begins("f") => "a number",
            () => return None,
        })
    });
    match wanted {
        Some(wanted) => format!("{place} must be {wanted}."),
        None => format!("{place} has a value that does not fit."),
    }
}

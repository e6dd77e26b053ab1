//! The demo people who can sign in. Their rights come from the product's own user rows.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// The subject of the tokens: `<school>-<person>`, or `operator`.
    pub(crate) subject: String,
    /// The claim that selects the school; the platform's operator has none.
    pub(crate) tenant: Option<&'static str>,
    pub(crate) name: String,
}

#[derive(Debug)]
pub(crate) struct School {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
}

pub(crate) const SCHOOLS: [School; 2] = [
    School {
        id: "lakeside",
        title: "Lakeside",
    },
    School {
        id: "hilltop",
        title: "Hilltop",
    },
];

/// What the people of a school are called in `POST /_sandbox/token`, and their titles.
pub(crate) const PEOPLE: [(&str, &str); 10] = [
    ("admin", "Admin"),
    ("deputy", "Deputy"),
    ("teacher", "Teacher"),
    ("teacher2", "Second teacher"),
    ("student", "Student"),
    ("parent", "Parent"),
    ("parent2", "Second parent"),
    ("accountant", "Accountant"),
    ("librarian", "Librarian"),
    ("receptionist", "Receptionist"),
];

pub(crate) const OPERATOR: &str = "operator";

pub(crate) fn of_school(school: &School) -> impl Iterator<Item = Account> {
    PEOPLE.iter().map(move |(person, title)| Account {
        subject: format!("{}-{person}", school.id),
        tenant: Some(school.id),
        name: format!("{} {}", school.title, title.to_lowercase()),
    })
}

pub(crate) fn operator() -> Account {
    Account {
        subject: OPERATOR.to_owned(),
        tenant: None,
        name: "Platform operator".to_owned(),
    }
}

pub(crate) fn by_subject(subject: &str) -> Option<Account> {
    SCHOOLS
        .iter()
        .flat_map(of_school)
        .chain([operator()])
        .find(|account| account.subject == subject)
}

//! The tools that a person's turn is offered, and those it has to do without.

use toshi_connectors::names::{Names, SHOWN_MAX as SHOWN_NAME_MAX};
use toshi_connectors::schema;
use toshi_core::{
    Access, Catalogue, ConnectionRow, Gate, Role, ToolRow, UserId, Verdict, blocked_words,
};
use toshi_store::Toolbox;

use crate::model::ModelTool;

/// Who a turn is for.
#[derive(Clone, Debug)]
pub struct Person {
    pub user: UserId,
    pub name: String,
    pub role: Role,
}

/// One tool as offered.
#[derive(Clone, Debug)]
pub(crate) struct OfferedTool {
    /// The name the model is shown.
    pub name: String,
    pub connection: ConnectionRow,
    pub row: ToolRow,
    pub access: Access,
}

/// Tools in one prompt: the fewest that a provider takes are 128, and some are our own.
const SHOWN_MAX: usize = 120;
/// All of them together, in bytes: a third of the smallest context window.
const SHOWN_BYTES_MAX: usize = 128 * 1024;
/// One tool's description, in characters: longer ones are refused by a provider.
const DESCRIPTION_MAX: usize = 1_024;
/// Tools that a sentence names.
const NAMED_MAX: usize = 5;

#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    tools: Vec<OfferedTool>,
    shown: Vec<ModelTool>,
    /// Bytes of what is shown.
    bytes: usize,
    /// Sentences on what is missing and why, for the prompt.
    missing: Vec<String>,
    /// Connections with a tool whose definition changed.
    withheld: Vec<ConnectionRow>,
}

impl Offer {
    /// Narrows the school's tools to what this person may be offered. Every tool shown goes
    /// through the gate here, and again when it is called.
    pub(crate) fn of(catalogue: &Catalogue, toolbox: &Toolbox, person: &Person) -> Self {
        let mut offer = Self::default();
        let pairs = toolbox.connections.iter().flat_map(|connection| {
            let tools = toolbox
                .tools
                .iter()
                .filter(|row| row.connection == connection.connection);
            tools.map(|row| (connection.connector.as_str(), row.definition.name.as_str()))
        });
        let names = Names::of(pairs);
        let mut types: Vec<&str> = Vec::new();
        for connection in &toolbox.connections {
            if types.contains(&connection.connector.as_str()) {
                // Two accounts behind one name could not be told apart by the model.
                tracing::warn!(connection = %connection.connection, "a second connection of a type is not offered");
                if connection.roles.contains(&person.role) {
                    let title = title(catalogue, connection);
                    offer.missing.push(format!(
                        "{title}: only one of its connections is used here."
                    ));
                }
                continue;
            }
            types.push(&connection.connector);
            offer.add(catalogue, toolbox, person, connection, &names);
        }
        offer
    }

    fn add(
        &mut self,
        catalogue: &Catalogue,
        toolbox: &Toolbox,
        person: &Person,
        connection: &ConnectionRow,
        names: &Names,
    ) {
        let killed = toolbox.is_killed(connection);
        let gate = Gate::new(catalogue, connection, person.role, &person.user, killed);
        let title = title(catalogue, connection);
        let (mut unfit, mut too_many) = (Vec::new(), Vec::new());
        if connection.roles.contains(&person.role) && (!connection.usable || killed) {
            let why = if killed {
                "calls to it are stopped at the moment"
            } else {
                "an administrator must look at its connection"
            };
            self.missing
                .push(format!("{title} is not available now: {why}."));
            return;
        }
        for row in toolbox
            .tools
            .iter()
            .filter(|row| row.connection == connection.connection)
        {
            let tool = row.definition.name.as_str();
            let access = gate.access(tool, Some(row));
            match gate.judge(tool, Some(row)) {
                Verdict::Allow | Verdict::Ask => {}
                Verdict::Deny(why) => {
                    if why == toshi_core::BlockReason::DefinitionChanged {
                        if self.withheld.last() != Some(connection) {
                            self.withheld.push(connection.clone());
                        }
                        let words = blocked_words(why);
                        let tool = safe_name(tool);
                        self.missing
                            .push(format!("{title}: {tool} is not available: {words}."));
                    }
                    continue;
                }
            }
            let Some(name) = names.shown(&connection.connector, tool) else {
                unfit.push(tool);
                continue;
            };
            let shown = match access {
                Access::Read => row.definition.input_schema.clone(),
                Access::Write => row.definition.schema_with_intent(),
            };
            let schema = match schema::acceptable(&shown) {
                Ok(schema) => schema,
                Err(why) => {
                    tracing::warn!(%why, tool, connection = %connection.connection, "a tool's schema is not acceptable to model providers; the tool is left out");
                    unfit.push(tool);
                    continue;
                }
            };
            let description = row.definition.description.clone().unwrap_or_default();
            let note = match access {
                Access::Read => "",
                Access::Write => " It changes something: a person is asked before it is run.",
            };
            let room = DESCRIPTION_MAX - note.len();
            let model_tool = ModelTool {
                name: name.to_owned(),
                description: format!("{}{note}", cut(&description, room)),
                schema,
            };
            let size = model_tool.size();
            if self.shown.len() == SHOWN_MAX || self.bytes + size > SHOWN_BYTES_MAX {
                tracing::warn!(tool, connection = %connection.connection, "there are more tools than a model can be shown; one is left out");
                too_many.push(tool);
                continue;
            }
            self.bytes += size;
            self.shown.push(model_tool);
            self.tools.push(OfferedTool {
                name: name.to_owned(),
                connection: connection.clone(),
                row: row.clone(),
                access,
            });
        }
        let why = [
            (unfit, "cannot be described to the model"),
            (too_many, "would be more than the model can be shown"),
        ];
        for (tools, why) in why.into_iter().filter(|(tools, _)| !tools.is_empty()) {
            self.missing.push(format!(
                "{title}: {} cannot be used here: they {why}.",
                listed(&tools)
            ));
        }
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    pub(crate) fn shown(&self) -> &[ModelTool] {
        &self.shown
    }

    pub(crate) fn missing(&self) -> &[String] {
        &self.missing
    }

    pub(crate) fn withheld(&self) -> &[ConnectionRow] {
        &self.withheld
    }
}

fn title<'c>(catalogue: &'c Catalogue, connection: &ConnectionRow) -> &'c str {
    let entry = catalogue.get(&connection.connector);
    entry.map_or("A tool", |entry| entry.title.as_str())
}

/// A server chose these names: they stand in a system message as names and nothing else.
fn listed(tools: &[&str]) -> String {
    let named: Vec<String> = tools
        .iter()
        .take(NAMED_MAX)
        .map(|tool| safe_name(tool))
        .collect();
    match tools.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// A text of at most so many characters.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['…']).collect(),
    }
}

/// A name that somebody else made up, as it can be stored and shown to any provider again: one that
/// breaks their rules would make them refuse the whole conversation from then on.
pub(crate) fn safe_name(name: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = name.chars().take(SHOWN_NAME_MAX);
    name.map(|c| if safe(c) { c } else { '_' }).collect()
}

#[cfg(test)]
#[path = "offer_tests.rs"]
mod tests;

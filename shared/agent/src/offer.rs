//! The tools that a person's turn is offered, and those it has to do without.

use toshi_connectors::{names::Names, schema};
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

#[derive(Clone, Debug, Default)]
pub(crate) struct Offer {
    tools: Vec<OfferedTool>,
    shown: Vec<ModelTool>,
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
        let title = catalogue
            .get(&connection.connector)
            .map_or("A tool", |entry| entry.title.as_str());
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
                        self.missing
                            .push(format!("{title}: {tool} is not available: {words}."));
                    }
                    continue;
                }
            }
            let Some(name) = names.shown(&connection.connector, tool) else {
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
                    continue;
                }
            };
            let description = row.definition.description.clone().unwrap_or_default();
            let note = match access {
                Access::Read => "",
                Access::Write => " It changes something: a person is asked before it is run.",
            };
            self.shown.push(ModelTool {
                name: name.to_owned(),
                description: format!("{description}{note}"),
                schema,
            });
            self.tools.push(OfferedTool {
                name: name.to_owned(),
                connection: connection.clone(),
                row: row.clone(),
                access,
            });
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

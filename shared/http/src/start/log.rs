//! The log: JSON lines on standard error, and metrics as lines of it.

use std::io::Write;

use serde_json::json;
use toshi_core::Millis;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use super::Environment;

/// What libraries may say, whatever `RUST_LOG` asks for: below it they print whole requests, with
/// people's tokens and words in them.
const MOST_OF_OTHERS: Level = Level::INFO;

/// Sets the log up, filtered as `RUST_LOG` says: a level, or levels by target such as
/// `info,toshi_agent=debug`; info if it cannot be read. A second call changes nothing.
pub fn init(environment: &Environment) {
    let wanted = environment.maybe("RUST_LOG").unwrap_or_default();
    let log = tracing_subscriber::registry().with(log(wanted, std::io::stderr));
    if log.try_init().is_err() {
        tracing::debug!("the log was set up before");
    }
}

/// The log, as lines on a writer.
pub fn log<S, W>(wanted: &str, writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    // Not `EnvFilter`, which brings regular expressions along.
    let wanted: Targets = wanted
        .parse()
        .ok()
        .filter(|_| !wanted.is_empty())
        .unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_writer(writer)
        .with_filter(wanted.and(filter_fn(is_safe)))
}

fn is_safe(what: &Metadata<'_>) -> bool {
    *what.level() <= MOST_OF_OTHERS || is_ours(what.target())
}

fn is_ours(target: &str) -> bool {
    let krate = target.split("::").next().unwrap_or_default();
    krate == "toshi" || krate.starts_with("toshi_")
}

/// Counts something as a CloudWatch metric in the embedded format, which is a line of the log.
pub fn count(metric: &str, value: u64, now: Millis) {
    // A metric that cannot be written has nowhere to say so.
    drop(writeln!(
        std::io::stderr(),
        "{}",
        embedded(metric, value, now)
    ));
}

fn embedded(metric: &str, value: u64, now: Millis) -> serde_json::Value {
    json!({
        "_aws": {
            "Timestamp": now.as_epoch(),
            "CloudWatchMetrics": [{
                "Namespace": "Toshi",
                "Dimensions": [[]],
                "Metrics": [{ "Name": metric, "Unit": "Count" }],
            }],
        },
        metric: value,
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged of events of each level from us and from libraries.
    fn logged(wanted: &str) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = log(wanted, move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(log);
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: "toshi_agent::run", "ours trace");
            tracing::info!(target: "toshi_http", "ours info");
            tracing::info!(target: "rmcp::service", "others info");
            tracing::debug!(target: "rmcp::service", "others debug");
            tracing::trace!(target: "lambda_runtime::layers", "others trace");
            tracing::trace!(target: "hyper", "others trace");
            tracing::debug!(target: "log", "others debug");
            tracing::trace!(target: "toshimasa::io", "others trace");
            tracing::error!(target: "aws_smithy_runtime", "others error");
            let span = tracing::trace_span!(target: "rmcp", "secretive", token = "canary");
            let _entered = span.enter();
            tracing::warn!(target: "rmcp", "others warn");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(!text.contains("canary"), "{text}");
        let message = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["message"].as_str().unwrap().to_owned()
        };
        text.lines().map(message).collect()
    }

    #[test]
    fn no_setting_makes_libraries_say_more_than_info() {
        let all = [
            "ours trace",
            "ours info",
            "others info",
            "others error",
            "others warn",
        ];
        for wanted in [
            "trace",
            "trace,rmcp=trace,lambda_runtime=trace,hyper=trace,log=trace",
        ] {
            assert_eq!(logged(wanted), all, "{wanted}");
        }
        assert_eq!(logged("off,rmcp=trace"), ["others info", "others warn"]);
    }

    #[test]
    fn the_log_can_be_made_quieter() {
        assert_eq!(
            logged("info"),
            &["ours info", "others info", "others error", "others warn"]
        );
        assert_eq!(logged("error"), ["others error"]);
        assert_eq!(logged("info,rmcp=error"), ["ours info", "others error"]);
        assert_eq!(logged("off"), [""; 0]);
        assert_eq!(logged("what=is=this"), logged("info"));
    }

    #[test]
    fn a_metric_is_named_where_its_value_stands() {
        let line = embedded("UnknownOutcomes", 3, Millis::from_epoch(7));
        assert_eq!(line["UnknownOutcomes"], 3);
        assert_eq!(line["_aws"]["Timestamp"], 7);
        assert_eq!(
            line["_aws"]["CloudWatchMetrics"][0]["Metrics"][0]["Name"],
            "UnknownOutcomes"
        );
    }
}

//! The log: JSON lines on standard error, and metrics as lines of it.

use std::io::Write;

use serde_json::json;
use toshi_core::Millis;
use tracing_subscriber::EnvFilter;

use super::Environment;

const DEFAULT_FILTER: &str = "info";

/// Sets the log up, filtered as `RUST_LOG` says. A second call changes nothing.
pub fn init(environment: &Environment) {
    let wanted = environment.maybe("RUST_LOG").unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::try_new(wanted).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if subscriber.try_init().is_err() {
        tracing::debug!("the log was set up before");
    }
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
    use super::*;

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

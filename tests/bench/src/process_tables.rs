//! What the shipped binaries cost as processes.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use toshi_bench::{Fleet, Refusing, Setting, Share, Start, Starts, TlsServer, Worked};

const RUNS: usize = 30;
const FUNCTIONS: [&str; 4] = ["chat", "approvals", "approvals-worker", "refresh"];
/// Lambda's sizes of memory, which decide the share of a CPU.
const MEGABYTES: [u64; 3] = [512, 256, 128];

/// Starts of each function, in turn with the bare ones so that all meet the same machine.
pub(crate) fn starts(out: &mut impl Write, folder: &Path) -> std::io::Result<()> {
    let refusing = Refusing::start();
    let cloud = refusing.url();
    let variables = [
        ("AWS_ENDPOINT_URL", cloud.as_str()),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("TOSHI_ENV", "bench"),
        ("TOSHI_TABLE", "bench"),
        ("TOSHI_AUDIT_TABLE", "bench-audit"),
        ("TOSHI_WAKE_QUEUE_URL", cloud.as_str()),
        ("TOSHI_KEY_ACCESS", "bench"),
        ("TOSHI_KEY_PLATFORM", "bench"),
        ("TOSHI_LLM_URL", "https://model.example/v1"),
        ("TOSHI_LLM_MODEL", "any"),
    ];
    let mut with_clients = variables.to_vec();
    with_clients.push(("BARE_CLIENTS", "1"));
    let server = TlsServer::start();
    let (address, root) = (server.url(), server.root().to_string_lossy().into_owned());
    let mut with_tls = with_clients.clone();
    with_tls.extend([("BARE_TLS", address.as_str()), ("BARE_ROOT", root.as_str())]);
    let bare = |variables: &[(&str, &str)]| Setting::new(folder.join("bare"), variables);
    let mut settings = vec![
        ("bare", bare(&variables)),
        ("bare with the clients", bare(&with_clients)),
        ("the same with its first TLS", bare(&with_tls)),
    ];
    settings.extend(FUNCTIONS.map(|name| (name, Setting::new(folder.join(name), &variables))));

    writeln!(
        out,
        "\nStart to the first `next`, medians of {RUNS}, clients built (goal 3 ms, must 8 ms)\n"
    )?;
    writeln!(
        out,
        "| binary | wall | CPU | × bare with the clients | peak memory | 512 MB | 256 MB | 128 MB |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    let whole = measure(&settings, None);
    let shares: Vec<Option<Vec<Start>>> = MEGABYTES
        .iter()
        .map(|megabytes| {
            let share = Share::of_megabytes(*megabytes)?;
            Some(measure(&settings, Some(&share)))
        })
        .collect();
    let floor = whole[1].wall.as_secs_f64();
    for (n, (name, _)) in settings.iter().enumerate() {
        let Start { wall, cpu, memory } = whole[n];
        write!(
            out,
            "| {name} | {:.1} ms | {:.1} ms | {:.2} | {:.1} MB |",
            millis(wall),
            millis(cpu),
            wall.as_secs_f64() / floor,
            memory as f64 / 1e6,
        )?;
        for share in &shares {
            match share {
                Some(starts) => write!(out, " {:.1} ms |", millis(starts[n].wall))?,
                None => write!(out, " not measured |")?,
            }
        }
        writeln!(out)?;
    }
    let [_, before, after, ..] = whole.as_slice() else {
        return Ok(());
    };
    let within = shares[1]
        .as_ref()
        .map_or("not measured".to_owned(), |starts| {
            format!(
                "{:.1} ms",
                millis(starts[2].wall.saturating_sub(starts[1].wall))
            )
        });
    writeln!(
        out,
        "\nFirst TLS of a process: {:.1} ms of CPU; {within} at 256 MB (goal 5 ms, must 30 ms)",
        millis(after.cpu.saturating_sub(before.cpu)),
    )?;
    writeln!(
        out,
        "\nThe last columns are wall times within the CPU share that Lambda gives at that memory."
    )
}

fn measure(settings: &[(&str, Setting)], share: Option<&Share>) -> Vec<Start> {
    let starts = Starts::new();
    let mut measured: Vec<Vec<Start>> = vec![Vec::with_capacity(RUNS); settings.len()];
    for run in 0..=RUNS {
        for (one, (_, setting)) in measured.iter_mut().zip(settings) {
            let start = starts.once(setting, share);
            // The first reads the file from disk.
            if run > 0 {
                one.push(start);
            }
        }
    }
    measured.into_iter().map(median).collect()
}

fn median(mut starts: Vec<Start>) -> Start {
    let middle = starts.len() / 2;
    starts.sort_unstable_by_key(|start| start.cpu);
    let cpu = starts[middle].cpu;
    starts.sort_unstable_by_key(|start| start.wall);
    Start {
        cpu,
        ..starts[middle]
    }
}

/// CPU of whole turns and the memory of a process that has worked for a while.
pub(crate) async fn work(out: &mut impl Write, folder: &Path) -> std::io::Result<()> {
    const TURNS: usize = 50;
    let mut fleet = Fleet::new(folder).await;
    fleet.say("hello", 30).await;
    fleet.say("what channels are there", 30).await;
    writeln!(
        out,
        "\nThe chat function's own CPU, all its threads, means of {TURNS} warm requests\n"
    )?;
    writeln!(out, "| what | CPU | goal | must |")?;
    writeln!(out, "|---|---|---|---|")?;
    let plain = fleet.say("hello", TURNS).await;
    row(out, "plain turn", plain, TURNS, "")?;
    let read = fleet.say("what channels are there", TURNS).await;
    row(
        out,
        "turn with one tool call",
        read,
        TURNS,
        "1.2 ms | 2.5 ms",
    )?;
    let list = fleet.list(TURNS).await;
    row(out, "list of conversations", list, TURNS, "")?;
    let Worked { peak_memory, .. } = fleet.list(800).await;
    writeln!(
        out,
        "\nPeak memory after 1,000 requests: {:.1} MB (goal 14, must 25)",
        peak_memory as f64 / 1e6
    )?;
    fleet.stop().await;
    Ok(())
}

fn row(
    out: &mut impl Write,
    what: &str,
    worked: Worked,
    times: usize,
    bounds: &str,
) -> std::io::Result<()> {
    let bounds = if bounds.is_empty() { "|" } else { bounds };
    let each = worked.cpu.as_secs_f64() * 1e3 / times as f64;
    writeln!(out, "| {what} | {each:.2} ms | {bounds} |")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

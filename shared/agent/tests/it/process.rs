//! A process of a test: a thread with a runtime and a clock of its own, which a failpoint ends.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use toshi_failpoints::{Point, set_ahead_ms};

/// Where and at which visit the process ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) at: Point,
    pub(crate) visit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It did what it was started for.
    Whole,
    At(Point),
    /// It was killed for taking too long.
    Killed,
}

struct Doom {
    death: Death,
    visits: u32,
    dead: bool,
    news: Arc<Notify>,
}

thread_local! {
    /// Of the process that is this thread.
    static DOOM: RefCell<Option<Doom>> = const { RefCell::new(None) };
}

/// How many processes have ended at each point.
static ENDED: [AtomicU32; Point::ALL.len()] = [const { AtomicU32::new(0) }; Point::ALL.len()];

/// The points at which no process has ended.
pub(crate) fn unmet() -> Vec<&'static str> {
    let unmet = Point::ALL
        .iter()
        .filter(|point| ENDED[**point as usize].load(Ordering::Relaxed) == 0);
    unmet.map(|point| point.name()).collect()
}

pub(crate) fn deaths() -> u32 {
    ENDED
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .sum()
}

/// Ends the process here if it is its time. A dead one visits nothing more, whichever of its tasks
/// comes by: unwinding drops what the task was about to do.
fn visited(point: Point) {
    let dies = DOOM.with_borrow_mut(|doom| {
        let Some(doom) = doom else { return false };
        if !doom.dead && doom.death.at == point {
            doom.visits += 1;
            if doom.visits == doom.death.visit {
                doom.dead = true;
                doom.news.notify_one();
                ENDED[point as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        doom.dead
    });
    if dies {
        // Without the panic hook: nobody need read of it.
        resume_unwind(Box::new("the process ended at a failpoint"));
    }
}

/// Runs a process to its end, whatever that is.
pub(crate) async fn run<F>(
    ahead_ms: i64,
    death: Option<Death>,
    limit: Duration,
    work: impl FnOnce() -> F + Send + 'static,
) -> Ending
where
    F: Future<Output = ()> + 'static,
{
    toshi_failpoints::watch(visited);
    let live = move || {
        set_ahead_ms(ahead_ms);
        let news = Arc::new(Notify::new());
        if let Some(death) = death {
            let news = Arc::clone(&news);
            DOOM.set(Some(Doom {
                death,
                visits: 0,
                dead: false,
                news,
            }));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = news.notified() => Ending::Killed,
                    ended = tokio::time::timeout(limit, work()) => match ended {
                        Ok(()) => Ending::Whole,
                        Err(_) => Ending::Killed,
                    },
                }
            })
        }));
        // Tasks that it left behind die with it.
        runtime.shutdown_background();
        match (DOOM.take().filter(|doom| doom.dead), ended) {
            (Some(doom), _) => Ending::At(doom.death.at),
            (None, Ok(ended)) => ended,
            (None, Err(panic)) => resume_unwind(panic),
        }
    };
    let thread = || std::thread::spawn(live).join();
    match tokio::task::spawn_blocking(thread).await.unwrap() {
        Ok(ending) => ending,
        Err(panic) => resume_unwind(panic),
    }
}

//! A share of one CPU, as Lambda gives it by memory: 1,769 MB are one whole
//! (<https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html>).

use std::fs;
use std::io::Write;
use std::path::PathBuf;

const WHOLE_MB: u64 = 1_769;
/// How often the share is filled again, in microseconds. Lambda does not say its own.
const PERIOD: u64 = 20_000;
const ROOT: &str = "/sys/fs/cgroup/cpu";

/// A control group of this process's own; removed when it is dropped.
#[derive(Debug)]
pub struct Share {
    folder: PathBuf,
}

impl Share {
    /// The share of so many megabytes. `None` where control groups cannot be made: not root, or
    /// another layout than version 1 with a `cpu` controller.
    pub fn of_megabytes(megabytes: u64) -> Option<Self> {
        let folder = PathBuf::from(format!("{ROOT}/toshi-{}-{megabytes}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let share = Self { folder };
        let quota = PERIOD * megabytes / WHOLE_MB;
        for (file, value) in [("cpu.cfs_period_us", PERIOD), ("cpu.cfs_quota_us", quota)] {
            fs::write(share.folder.join(file), value.to_string()).ok()?;
        }
        Some(share)
    }

    /// Runs this on a thread inside the share: a process that it starts is born there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter().expect("the thread enters its control group");
                work()
            });
            inside.join().expect("the thread ends")
        })
    }

    fn enter(&self) -> std::io::Result<()> {
        let own = fs::read_link("/proc/thread-self")?;
        let thread = own.file_name().unwrap_or_default().as_encoded_bytes();
        fs::OpenOptions::new()
            .write(true)
            .open(self.folder.join("tasks"))?
            .write_all(thread)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Its last process has just been waited for; the kernel may need a moment.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

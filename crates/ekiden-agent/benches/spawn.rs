//! What a keeper costs: `/bin/true` under a keeper beside `/bin/true` spawned directly.
//!
//! `cargo bench -p ekiden-agent`. The promise: the agent runs at most 2 ms later than without a
//! keeper, and the engine spends at most 0.3 ms of its own CPU time on a spawn.

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock and spawns what it compares with"
)]
#![expect(clippy::disallowed_macros, reason = "a bench prints its figures")]

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ekiden_agent::child::{Child, ChildSpec, StdinKind, spawn};
use ekiden_agent::keeper;
use rustix::time::{ClockId, clock_gettime};

const RUNS: usize = 200;

fn main() -> io::Result<()> {
    keeper::run_if_asked();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _entered = runtime.enter();
    // In turns, so that a busy moment of the machine hits both.
    let mut directly = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..RUNS {
        directly.push(spawn_directly()?);
        kept.push(runtime.block_on(spawn_kept())?);
    }
    println!(
        "{RUNS} times /bin/true, medians (and the best of them, which other load moves least)"
    );
    println!(
        "{:<12} {:>20} {:>20} {:>20}",
        "", "runs after", "gone after", "own CPU to spawn"
    );
    print_row("directly", &directly);
    print_row("kept", &kept);
    Ok(())
}

/// The times of one spawn.
#[derive(Clone, Copy)]
struct Times {
    running: Duration,
    gone: Duration,
    cpu: Duration,
}

fn spawn_directly() -> io::Result<Times> {
    let mut command = Command::new("/bin/true");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (start, cpu) = (Instant::now(), own_cpu());
    let mut child = command.spawn()?;
    let (cpu, running) = (own_cpu() - cpu, start.elapsed());
    child.wait()?;
    Ok(Times {
        running,
        gone: start.elapsed(),
        cpu,
    })
}

async fn spawn_kept() -> io::Result<Times> {
    let spec = spec()?;
    let (start, cpu) = (Instant::now(), own_cpu());
    let mut child = spawn(spec).map_err(io::Error::other)?;
    let cpu = own_cpu() - cpu;
    let running = running_after(&mut child, start).await;
    child.wait().await;
    Ok(Times {
        running,
        gone: start.elapsed(),
        cpu,
    })
}

async fn running_after(child: &mut Child, start: Instant) -> Duration {
    child.started().await;
    start.elapsed()
}

fn spec() -> io::Result<ChildSpec> {
    Ok(ChildSpec {
        stdin: StdinKind::Piped,
        ..ChildSpec::new(keeper::executable()?, "/bin/true", "/")
    })
}

fn own_cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime)
        .try_into()
        .unwrap_or_default()
}

fn print_row(name: &str, times: &[Times]) {
    let columns = [
        |times: &Times| times.running,
        |times: &Times| times.gone,
        |times: &Times| times.cpu,
    ];
    let cells = columns.map(|column| {
        let mut sorted = times.iter().map(column).collect::<Vec<_>>();
        sorted.sort_unstable();
        let at = |share: usize| sorted[sorted.len() * share / 100].as_secs_f64() * 1000.0;
        format!("{:.2} ({:.2}) ms", at(50), at(0))
    });
    println!(
        "{name:<12} {:>20} {:>20} {:>20}",
        cells[0], cells[1], cells[2]
    );
}

//! The actor, with children that are told what to do.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use super::*;

const TERMS: Terms = Terms { resident: true, restarts: 5 };
const LEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// A child that ends when it is told to.
struct Puppet {
    number: usize,
    end: CancellationToken,
    stopped: CancellationToken,
}

impl PluginChild for Puppet {
    fn ended(&self) -> BoxFuture<'static, String> {
        let (end, stopped) = (self.end.clone(), self.stopped.clone());
        Box::pin(async move {
            tokio::select! {
                () = end.cancelled() => "it fell over".to_owned(),
                () = stopped.cancelled() => "it was stopped".to_owned(),
            }
        })
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        self.stopped.cancel();
        Box::pin(std::future::ready(()))
    }
}

#[derive(Default)]
struct Stage {
    starts: AtomicUsize,
    /// What the next starts come to; a good one if nothing is said.
    faults: Mutex<Vec<StartFault>>,
    ends: Mutex<Vec<CancellationToken>>,
    told: Mutex<Vec<Status>>,
    given_up: Mutex<Vec<String>>,
}

impl PluginPort for Stage {
    type Child = Puppet;

    fn start(&self) -> BoxFuture<'static, Result<Begun<Puppet>, StartFault>> {
        let number = self.starts.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(fault) = self.faults.lock().unwrap().pop() {
            return Box::pin(std::future::ready(Err(fault)));
        }
        let end = CancellationToken::new();
        self.ends.lock().unwrap().push(end.clone());
        let child = Puppet { number, end, stopped: CancellationToken::new() };
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(Begun { child, exclusive: false })
        })
    }

    fn stands(&self, standing: &InstanceStatus) {
        self.told.lock().unwrap().push(standing.status);
    }

    fn gave_up(&self, reason: &str) {
        self.given_up.lock().unwrap().push(reason.to_owned());
    }
}

fn enabled() -> (Arc<Stage>, Addr<Instance<Stage>>) {
    tokio::time::pause();
    let (port, instance) = (Arc::<Stage>::default(), Instance::default().start());
    instance.do_send(Renew { port: port.clone(), terms: TERMS });
    (port, instance)
}

/// PL-22, PL-29: who comes while it is down hears so at once, and the next one finds it again.
#[actix::test]
async fn a_child_that_ends_is_started_again() {
    let (port, instance) = enabled();
    let first = lease(&instance, LEASE_TIMEOUT).await.unwrap();

    port.ends.lock().unwrap()[0].cancel();
    while port.told.lock().unwrap().last() != Some(&Status::Backoff) {
        tokio::task::yield_now().await;
    }
    let meanwhile = lease(&instance, LEASE_TIMEOUT).await.err();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let again = lease(&instance, LEASE_TIMEOUT).await.unwrap();

    assert_eq!(meanwhile, Some(Unavailable { reason: "it fell over".to_owned() }));
    assert_eq!((first.child.number, again.child.number), (1, 2));
    assert_eq!(
        *port.told.lock().unwrap(),
        [Status::Starting, Status::Running, Status::Backoff, Status::Starting, Status::Running]
    );
}

/// PL-28: a call that runs while the plugin is changed ends on the child that it began on; the next is taken by the
/// new one, and nobody is turned away.
#[actix::test]
async fn a_change_loses_no_call() {
    let (port, instance) = enabled();
    let old = lease(&instance, LEASE_TIMEOUT).await.unwrap();

    instance.send(Renew { port: port.clone(), terms: TERMS }).await.unwrap();
    let during = lease(&instance, LEASE_TIMEOUT).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = lease(&instance, LEASE_TIMEOUT).await.unwrap();

    assert_eq!([&old, &during, &after].map(|lease| lease.child.number), [1, 1, 2]);
    assert!(!old.child.stopped.is_cancelled());
    let stopped = old.child.stopped.clone();
    drop((old, during));
    stopped.cancelled().await;
}

/// PL-28: a call that does not end is not waited for longer than that.
#[actix::test]
async fn switching_off_waits_for_calls_and_not_for_ever() {
    let (port, instance) = enabled();
    let held = lease(&instance, LEASE_TIMEOUT).await.unwrap();
    let began = Instant::now();

    instance.send(Disable).await.unwrap();

    assert!((DRAIN_TIMEOUT..DRAIN_TIMEOUT * 2).contains(&began.elapsed()));
    assert!(held.child.stopped.is_cancelled());
    assert!(lease(&instance, LEASE_TIMEOUT).await.is_err());
    assert_eq!(
        *port.told.lock().unwrap(),
        [Status::Starting, Status::Running, Status::Stopping, Status::Disabled]
    );
}

/// PL-24
#[actix::test]
async fn a_start_that_cannot_succeed_is_given_up_and_said() {
    let (port, instance) = enabled();
    port.faults.lock().unwrap().push(StartFault { reason: "no".to_owned(), for_good: true });
    instance.do_send(Renew { port: port.clone(), terms: TERMS });

    let refused = lease(&instance, LEASE_TIMEOUT).await.err();

    assert_eq!(refused, Some(Unavailable { reason: "no".to_owned() }));
    assert_eq!(*port.given_up.lock().unwrap(), ["no"]);
}

/// PL-23
#[actix::test]
async fn a_child_of_tools_alone_rests_once_nobody_has_used_it_for_long() {
    tokio::time::pause();
    let (port, instance) = (Arc::<Stage>::default(), Instance::default().start());
    let terms = Terms { resident: false, restarts: 5 };
    instance.send(Renew { port: port.clone(), terms }).await.unwrap();
    assert_eq!(port.starts.load(Ordering::Relaxed), 0);

    let used = lease(&instance, LEASE_TIMEOUT).await.unwrap();
    let stopped = used.child.stopped.clone();
    tokio::time::sleep(IDLE_TIMEOUT * 3).await;
    assert!(!stopped.is_cancelled());
    drop(used);
    tokio::time::sleep(IDLE_TIMEOUT + LEASE_TIMEOUT).await;

    assert!(stopped.is_cancelled());
    assert_eq!(port.told.lock().unwrap().last(), Some(&Status::Idle));
}

//! How long a first visit of the web page takes until one can write in it.

use crate::{
    report::{Bound, Report},
    service::Service,
    webdriver::Browser,
};

const VISITS: usize = 9;
/// The page sets it when its composer takes text and its connection is open.
const USABLE: &str = "performance.getEntriesByName('usable')[0]?.startTime";

pub(crate) fn measure(report: &mut Report) {
    let mut took = actix::System::new().block_on(visits());
    took.sort_unstable_by(f64::total_cmp);
    let Some(median) = took.get(took.len() / 2) else {
        return;
    };
    report.figure(
        "page: a first visit until one can write, median of 9",
        *median,
        "ms",
        Bound::AtMost(500.0),
    );
}

/// Each with a browser that knows nothing of the page. None if there is no browser here.
async fn visits() -> Vec<f64> {
    let service = Service::start().await;
    let mut took = Vec::new();
    for _ in 0..VISITS {
        let Some(browser) = Browser::start().await else {
            break;
        };
        browser.open(&service.login_link().await).await;
        browser.until(USABLE).await;
        took.extend(browser.value(USABLE).await.as_f64());
        browser.close().await;
    }
    took
}

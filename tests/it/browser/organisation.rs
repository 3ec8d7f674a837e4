//! The organisation: looked at as a drawing and as a list, and steered from there.

use serde_json::json;

use super::{
    access::has_no_findings, asking, chat, data, furnished, has_no_complaints, order, press,
    submit, until_gone, until_shown, until_told, views::shows,
};

const NODES: &str = "document.querySelectorAll('.node').length";

/// OP-52
#[tokio::test]
async fn the_organisation_is_looked_at_and_steered() {
    let service = furnished().await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    shows(&browser, "#/org", ".node + .node").await;

    browser.click(".fold-node").await;
    browser.until(&format!("{NODES} === 1")).await;
    browser.click(".fold-node").await;
    browser.until(&format!("{NODES} === 2")).await;
    let frame = "document.querySelector('.comb').getAttribute('viewBox')";
    let whole = browser.value(frame).await;
    press(&browser, "Larger").await;
    browser.until(&format!("{frame} !== {whole}")).await;
    press(&browser, "Fit").await;
    browser.until(&format!("{frame} === {whole}")).await;
    browser.fill("#view .search", "resea").await;
    browser.until("document.querySelectorAll('.node[data-dim]').length === 1").await;
    press(&browser, "List").await;
    browser.until("document.querySelectorAll('.org-list li').length === 1").await;

    press(&browser, "Pause research").await;
    until_told(&browser, "research is paused.").await;
    assert_eq!(data(&service, "/api/v1/teams/research").await["state"], "paused");
    press(&browser, "Resume research").await;
    until_told(&browser, "research is resumed.").await;
    assert_eq!(data(&service, "/api/v1/teams/research").await["state"], "active");

    press(&browser, "Pause all").await;
    submit(&browser).await;
    until_shown(&browser, "paused").await;
    assert_eq!(data(&service, "/api/v1/overview").await["teams"]["paused"], 2);
    press(&browser, "Resume all").await;
    until_told(&browser, "All teams are resumed.").await;
    assert_eq!(data(&service, "/api/v1/overview").await["teams"]["paused"], 0);

    press(&browser, "New team").await;
    browser.fill("dialog [name=name]", "writing").await;
    browser.fill("dialog [name=description]", "writes researched letters").await;
    browser.fill("dialog [name=scope]", "letters, reports").await;
    browser.choose("dialog [name=parent]", "research").await;
    submit(&browser).await;
    until_shown(&browser, "writes researched letters").await;
    let made = data(&service, "/api/v1/teams/writing").await;
    assert_eq!(made["parent"], "research");
    assert_eq!(made["own_scope"], json!(["letters", "reports"]));

    // Whoever types another name has not meant it.
    press(&browser, "Shut down research").await;
    browser
        .until("document.querySelector('dialog').textContent.includes('the 1 team below it end')")
        .await;
    browser.fill("dialog [name=typed]", "writing").await;
    browser.click("dialog [type=submit]").await;
    browser.until("document.querySelector('dialog [name=typed]:invalid')").await;
    assert_eq!(service.api("GET", "/api/v1/teams/research", None).await.0, 200);
    browser.fill("dialog [name=typed]", "research").await;
    submit(&browser).await;
    until_gone(&browser, "writes researched letters").await;
    for team in ["research", "writing"] {
        let path = format!("/api/v1/teams/{team}");
        assert_eq!(service.api("GET", &path, None).await.0, 404, "{team}");
    }
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// OP-52: many teams are drawn with names as large as text, and a cell tells what its team is at.
#[tokio::test]
async fn many_teams_can_be_read_in_the_drawing() {
    let service = furnished().await;
    for number in 1..=9 {
        let team = json!({"name": format!("team-{number}"), "description": "does a part", "scope_accepts": ["part"]});
        order(&service, "POST", "/api/v1/teams", team).await;
    }
    let Some(browser) = chat(&service).await else {
        return;
    };

    shows(&browser, "#/org", ".comb.lying .node + .node").await;
    browser.until(&format!("{NODES} === 11")).await;
    let small = "[...document.querySelectorAll('.node text')].filter(text => \
                 text.getBoundingClientRect().height < 12).length";
    assert_eq!(browser.value(small).await, 0);
    browser.fill("#view .search", "team-9").await;
    browser.until("document.querySelectorAll('.node:not([data-dim])').length === 1").await;
    browser.click(".node:not([data-dim]) .node-cell").await;
    browser.until("document.querySelector('.team-panel h2')?.textContent === 'team-9'").await;
    browser.click_on("[...document.querySelectorAll('.team-panel a')].at(-1)").await;
    browser.until("decodeURIComponent(location.hash) === '#/chat/@team-9'").await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

/// Notes every mark that appears on an edge, where it is after its first frame, and edges that are marked themselves.
const WATCH: &str = "window.crossed = []; const noted = new WeakSet(); new MutationObserver(() => { \
    for (const mark of document.querySelectorAll('.traffic')) { \
        if (noted.has(mark)) continue; \
        noted.add(mark); \
        const edge = document.querySelector('.edge[data-crossed]'); \
        const [moves, way] = [mark.getAnimations()[0], edge?.getBoundingClientRect()]; \
        const still = getComputedStyle(mark).display === 'none'; \
        if (moves) { moves.pause(); moves.currentTime = 600; } \
        const {x, y, width, height} = mark.getBoundingClientRect(); \
        const [across, along] = [x + width / 2, y + height / 2]; \
        window.crossed.push({up: 'up' in mark.dataset, still, wide: edge && getComputedStyle(edge).strokeWidth, \
            isOnEdge: Boolean(way) && Math.abs(across - way.x - way.width / 2) < 20 \
                && along > way.top && along < way.bottom}); \
        moves?.play(); \
    } \
}).observe(document.querySelector('#view'), {subtree: true, childList: true})";

/// OP-127, OP-69: work that one team gives another is seen on its way, and its result on its way back; whoever wants no motion
/// sees the edge marked instead.
#[tokio::test]
async fn what_teams_hand_over_moves_along_the_edges() {
    let service = asking().await;
    service.make_team("research", "finds things out").await;
    let Some(browser) = chat(&service).await else {
        return;
    };
    let mut client = service.connect().await;
    let both = "window.crossed.some(one => one.up) && window.crossed.some(one => !one.up)";
    shows(&browser, "#/org", ".node + .node").await;

    browser.run(WATCH).await;
    client.ask("delegate research: #reply found").await;
    browser.until(both).await;
    let crossed = browser.value("window.crossed").await;
    for mark in crossed.as_array().unwrap() {
        assert_eq!((&mark["still"], &mark["isOnEdge"]), (&json!(false), &json!(true)), "{crossed}");
    }
    browser.until("!document.querySelector('.traffic')").await;

    browser.prefer_stillness().await;
    browser.run("window.crossed = []").await;
    client.ask("delegate research: #reply found again").await;
    browser.until(both).await;
    let crossed = browser.value("window.crossed").await;
    for mark in crossed.as_array().unwrap() {
        assert_eq!((&mark["still"], &mark["wide"]), (&json!(true), &json!("6px")), "{crossed}");
    }
    browser.until("!document.querySelector('.edge[data-crossed]')").await;
    has_no_findings(&browser).await;
    has_no_complaints(&browser).await;
    browser.close().await;
}

"use strict";
const main = document.querySelector("main"), lost = document.querySelector("#lost");
let version = "";
async function look() {
  try {
    const answer = await fetch("now?after=" + version, { cache: "no-store" });
    if (answer.status === 200) {
      const open = [...main.querySelectorAll("details")].map((one) => one.open);
      main.innerHTML = await answer.text();
      main.querySelectorAll("details").forEach((one, k) => { one.open = Boolean(open[k]); });
      version = answer.headers.get("X-Version");
    }
    lost.hidden = answer.status !== 403;
  } catch {
    lost.hidden = false;
  }
  setTimeout(look, lost.hidden ? 1000 : 5000);
}
look();

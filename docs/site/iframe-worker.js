// Browsers start no workers for pages that are read from disk, but search needs one. There, a hidden
// frame runs the worker's script instead. (The name of the file tells the theme's offline plugin that
// this part is taken care of, and IFrameWorker tells the script where it runs.)
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.ready = new Promise((resolve) => frame.addEventListener("load", resolve));
      window.addEventListener("message", (event) => {
        if (event.source === this.inside)
          this.dispatchEvent(new MessageEvent("message", {data: event.data}));
      });
      this.inside.document.open();
      this.inside.document.write(
          `<script>postMessage = (data) => {
             parent.dispatchEvent(new MessageEvent("message", {data, source: window}));
           };</` + `script><script src="${url}"></` + `script>`);
      this.inside.document.close();
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
    }
    terminate() {}
  };
}

// Browsers refuse workers on pages that come from a folder. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => this.answer(data)
      this.waiting = new Promise(resolve => {
        const script = frame.contentDocument.createElement("script")
        script.src = url
        script.onload = () => resolve(inside)
        frame.contentDocument.body.appendChild(script)
      })
    }

    answer(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }

    postMessage(data) {
      this.waiting.then(inside => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }
  }
}

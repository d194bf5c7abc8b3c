// Looking again: while a page is shown and seen, some task every so often; a service that is away is no error here.

export function every(periodS, stillHere, task) {
  const timer = setInterval(async () => {
    if (!stillHere()) return clearInterval(timer);
    if (document.visibilityState !== "visible") return;
    try {
      await task();
    } catch (error) {
      if (!error.isProblem) throw error;
      console.info("the service could not be asked again:", error.message);
    }
  }, periodS * 1000);
}

// Passkeys: a form asks the browser for one, and sends what it answers. Where browsers have none the form stays hidden.
import { _ } from "./words.js";

const known = window.PublicKeyCredential;
const ready = known?.parseCreationOptionsFromJSON && known?.parseRequestOptionsFromJSON;

for (const form of document.querySelectorAll("form[data-passkey]")) {
  form.hidden = !ready;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(form);
  });
}

async function ask(form) {
  const button = form.querySelector("button");
  const status = form.querySelector("[role=status]");
  button.disabled = true;
  status.textContent = "";
  try {
    const options = JSON.parse(form.dataset.options);
    const credential =
      form.dataset.passkey === "make"
        ? await navigator.credentials.create({ publicKey: known.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: known.parseRequestOptionsFromJSON(options) });
    form.elements.passkey.value = JSON.stringify(credential.toJSON());
    form.submit();
  } catch {
    status.textContent = _("The browser gave no passkey. Try again, or use another second factor.");
    button.disabled = false;
  }
}

SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  deepLinking: true,
  showExtensions: true,
  validatorUrl: null, // or it asks an outside server whether the page is valid
});
